package torch

import (
	"fmt"
	"runtime"
	"sync/atomic"
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
