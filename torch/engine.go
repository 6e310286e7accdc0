package torch

/*
#include "seadnative.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
)

var engine struct {
	once sync.Once
	jobs chan func()
	tid  atomic.Int64
}

func start() {
	engine.jobs = make(chan func())
	spawn()
}

// spawn brings up the engine thread. A job that ends its goroutine (runtime.Goexit, and so t.FailNow) takes the thread
// with it: the next one follows.
func spawn() {
	ready := make(chan struct{})
	go func() {
		runtime.LockOSThread() // for good: the thread's grad mode and OpenMP team are the engine's
		engine.tid.Store(int64(syscall.Gettid()))
		C.sn_init()
		C.sn_set_grad_enabled(0)
		close(ready)
		defer spawn()
		for f := range engine.jobs {
			f()
		}
	}()
	<-ready
}

var errGoexit = errors.New("the function ended the engine thread's goroutine (runtime.Goexit or t.FailNow) instead of returning")

// Do runs f on the engine thread inside a scope of its own and waits for it. A panic of a tensor op becomes the error;
// other panics (bugs) become an error too, with their stack, so that the thread lives on.
func Do(f func()) error {
	engine.once.Do(start)
	if onEngine() {
		return protect(f)
	}
	err := errGoexit
	done := make(chan struct{})
	engine.jobs <- func() {
		defer close(done)
		err = protect(f)
	}
	<-done
	return err
}

// Try is Do for functions that can fail by themselves.
func Try(f func() error) error {
	var inner error
	if err := Do(func() { inner = f() }); err != nil {
		return err
	}
	return inner
}

func onEngine() bool { return engine.tid.Load() == int64(syscall.Gettid()) }

func protect(f func()) (err error) {
	depth := len(scopes)
	defer func() {
		r := recover()
		for len(scopes) > depth {
			closeScope(nil)
		}
		switch r := r.(type) {
		case nil:
		case *Error:
			err = r
		default:
			err = fmt.Errorf("panic on the engine thread: %v\n%s", r, debug.Stack())
		}
	}()
	openScope()
	f()
	return nil
}

// maxThreads bounds what is asked for: every thread of a team is made, however many there are.
const maxThreads = 1024

// CheckThreads refuses a number that SetNumThreads should not be asked for.
func CheckThreads(n int) error {
	if n < 0 || n > maxThreads {
		return fmt.Errorf("%d: want 1 to %d, or 0 (one per core)", n, maxThreads)
	}
	return nil
}

// SetNumThreads sets the number of threads an op may use, 0: one per core, and returns it. It takes effect at the engine
// thread's next parallel region.
func SetNumThreads(n int) int {
	if n == 0 {
		n = runtime.NumCPU()
	}
	if err := Do(func() { check("set_num_threads", C.sn_set_num_threads(C.int(n))) }); err != nil {
		panic(err)
	}
	return n
}

// NumThreads is the number of threads an op may use. OpenMP keeps it per thread: it is the engine thread's.
func NumThreads() (n int) {
	_ = Do(func() { n = int(C.sn_get_num_threads()) })
	return n
}

// TeamSize is the number of threads that a parallel region of the engine thread really gets; 1 means that parallel code
// was compiled without OpenMP.
func TeamSize() (n int) {
	_ = Do(func() { n = int(C.sn_openmp_threads()) })
	return n
}

// Live is the number of tensor handles alive in the process.
func Live() int64 { return int64(C.sn_live()) }

// Version is libtorch's version.
func Version() string { return C.GoString(C.sn_versions()) }

// ISA names the instruction set of the kernels in use: "avx512", "avx2" or "generic".
func ISA() string { return C.GoString(C.sn_isa()) }

// throw raises one C++ exception of every kind at the boundary, for tests.
func throw(kind int, shape ...int64) { checkNew("test_throw", C.sn_test_throw(C.int(kind)), shape...) }
