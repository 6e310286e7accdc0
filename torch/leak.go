package torch

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Kept tensors belong to whoever keeps them, and nobody frees them in his place. For tests, a detector tells of those that
// Go's collector finds lost: it reports, and frees nothing.

type kept struct {
	freed atomic.Bool
	where string // file:line of Keep
}

var leaks atomic.Pointer[func(string)]

// DetectLeaks makes every later Keep remember its caller. When a kept tensor is collected without having been freed, report
// gets a line that names the place; it runs beside the program. nil ends it.
func DetectLeaks(report func(string)) {
	if report == nil {
		leaks.Store(nil)
		return
	}
	leaks.Store(&report)
}

// CheckLeaks runs a package's tests (m.Run, in TestMain) and makes them fail if a tensor handle is left when they are over.
func CheckLeaks(run func() int) int {
	var mu sync.Mutex
	var lost []string
	DetectLeaks(func(s string) {
		mu.Lock()
		defer mu.Unlock()
		lost = append(lost, s)
	})
	before := Live()
	code := run()
	if n := Live() - before; n != 0 && code == 0 {
		for range 10 { // cleanups run some time after the collector
			runtime.GC()
			time.Sleep(10 * time.Millisecond)
		}
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(os.Stderr, "%d tensor handles are left after the tests\n%s\n", n, strings.Join(lost, "\n"))
		code = 1
	}
	return code
}

func watch(t *Tensor) {
	if leaks.Load() == nil || t.kept != nil {
		return
	}
	_, file, line, _ := runtime.Caller(2)
	t.kept = &kept{where: fmt.Sprintf("%s:%d", file, line)}
	runtime.AddCleanup(t, func(k *kept) {
		if report := leaks.Load(); report != nil && !k.freed.Load() {
			(*report)("a kept tensor was lost without Free: kept at " + k.where)
		}
	}, t.kept)
}
