package torch

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestErrorsOfEveryKind(t *testing.T) {
	for kind, want := range []struct {
		code Code
		says string
	}{
		{CodeShape, "cannot be multiplied"}, {CodeShape, "dtype"}, {CodeOutOfMemory, "memory"}, {CodeOutOfMemory, "alloc"}, {CodeUnknown, ""},
		{CodeStd, "a plain runtime error"}, {CodeIndex, "out of range"}, {CodeDist, "a peer is gone"}, {CodeUnsupported, "CUDA"},
	} {
		e := fails(t, want.code, func() { throw(kind, 2, 3) })
		if e.Op != "test_throw" || !reflect.DeepEqual(e.Shapes, [][]int64{{2, 3}}) || e.Msg == "" || strings.Contains(e.Msg, "\n") || !strings.Contains(e.Msg, want.says) {
			t.Errorf("kind %d: %#v, want %q", kind, e, want.says)
		}
	}
	do(t, func() { // the thread works on
		if v := Full(2, F32, CPU, 3).SumAll().Item(); v != 6 {
			t.Error(v)
		}
	})
}

// An error names the op, the operands' shapes and what libtorch says.
func TestErrorText(t *testing.T) {
	z := func(shape ...int64) *Tensor { return Zeros(F32, CPU, shape...) }
	for _, c := range []struct {
		code Code
		want string
		f    func()
	}{
		{CodeShape, "torch.matmul([2 3], [4 5]): mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)", func() { z(2, 3).Matmul(z(4, 5)) }},
		{CodeShape, "torch.linear([2 3], [5 4]): ", func() { Linear(z(2, 3), z(5, 4), nil) }},
		{CodeShape, "torch.linear([2 3], [5 3], [4]): ", func() { Linear(z(2, 3), z(5, 3), z(4)) }},
		{CodeShape, "torch.cat([2 3], [2 3], [4]): ", func() { Cat(0, z(2, 3), z(2, 3), z(4)) }},
		{CodeShape, "torch.reshape([2 3]): shape '[4]' is invalid for input of size 6", func() { z(2, 3).Reshape(4) }},
		{CodeIndex, "torch.sum([2 3]): Dimension out of range", func() { z(2, 3).Sum(5, false) }},
		{CodeShape, "torch.from_host([3]): from_host: 8 bytes for a tensor of 12", func() { Of([]float32{1, 2}, 3) }},
		{CodeShape, "torch.to_host([3]): to_host: buffer of 5 bytes for a tensor of 12", func() { z(3).CopyTo(make([]byte, 5)) }},
		{CodeShape, "torch.matmul([2 3], [3 4]): expected m1 and m2 to have the same dtype", func() { z(2, 3).Matmul(Zeros(F64, CPU, 3, 4)) }},
		{CodeShape, "torch.index_select([2], [1]): index_select(): Expected dtype int32 or int64 for index", func() { z(2).IndexSelect(0, z(1)) }},
		{CodeOutOfMemory, "torch.empty([1125899906842624]): ", func() { Empty(F32, CPU, 1<<50) }},
		{CodeOutOfMemory, "torch.full([1048576 1073741824]): ", func() { Zeros(F64, CPU, 1<<20, 1<<30) }},
		{CodeOutOfMemory, "torch.randn([1048576 1073741824]): ", func() { Randn(1, F32, CPU, 1<<20, 1<<30) }},
		{CodeOutOfMemory, "torch.arange([1125899906842624]): ", func() { Arange(1<<50, I64, CPU) }},
		{CodeShape, "torch.grad([]): ", func() { Grad([]*Tensor{z()}, nil, []*Tensor{z()}) }},
		{CodeShape, "torch.grad: a list of 0 tensors beside one of 1", func() { Grad([]*Tensor{z()}, []*Tensor{}, []*Tensor{z()}) }},
		{CodeValue, "torch.bytes([3 2]): only contiguous CPU tensors", func() { z(2, 3).Transpose(0, 1).Bytes() }},
		{CodeValue, "torch.add([2]): use of a tensor that was freed", func() { a := z(2); b := a.Clone(); b.Free(); a.Add(b) }},
		{CodeValue, "torch.shape: use of a tensor that was freed", func() { a := z(2); a.Free(); a.Shape() }},
		{CodeValue, "torch.cat([2]): use of a tensor that was freed", func() { a := z(2); a.Free(); Cat(0, z(2), a) }},
	} {
		if e := fails(t, c.code, c.f); !strings.HasPrefix(e.Error(), c.want) {
			t.Errorf("%q, want it to begin with %q", e, c.want)
		}
	}
}

// A result moves out of its scope; everything else in it is freed.
func TestScoped(t *testing.T) {
	do(t, func() {
		base := Live()
		counts := func(what string, want int64) {
			t.Helper()
			if n := Live() - base; n != want {
				t.Errorf("%s: %d handles, want %d", what, n, want)
			}
		}
		a := Full(1, F32, CPU, 2)
		out := Scoped(func() *Tensor {
			b := a.Add(a)
			inner := Scoped(func() *Tensor { return b.Add(b).Add(a) })
			counts("b and the inner result", 3)
			return inner.MulScalar(2)
		})
		counts("a and the result", 2)
		if got := Data[float32](out); got[0] != 10 { // ((1+1)·2 + 1)·2
			t.Error(got)
		}
		pair := ScopedN(func() []*Tensor { return []*Tensor{a.Neg(), nil, a.Exp(), a} }) // a is of the outer scope: stays there
		counts("and two more", 4)
		if pair[1] != nil || pair[3] != a {
			t.Error(pair)
		}
		InScope(func() { a.Neg() })
		counts("nothing more", 4)
		if nothing := Scoped(func() *Tensor { a.Neg(); return nil }); nothing != nil {
			t.Error(nothing)
		}
		same := Scoped(func() *Tensor { return Scoped(func() *Tensor { return a.Neg() }) })
		counts("moved out twice", 5)
		same.Free()
		same.Free()
		counts("freed", 4)
	})
}

func TestKeep(t *testing.T) {
	var kept, late *Tensor
	before := Live()
	if err := Do(func() {
		kept = Full(3, F32, CPU, 2).Keep()
		Scoped(func() *Tensor {
			late = kept.Add(kept)
			late.Keep()
			return late // returned as well: it stays kept
		})
	}); err != nil {
		t.Fatal(err)
	}
	if n := Live() - before; n != 2 {
		t.Errorf("%d handles, want 2", n)
	}
	do(t, func() { // results of kept operands join the scope
		if v := late.Add(kept).SumAll().Item(); v != 18 {
			t.Error(v)
		}
	})
	kept.Free()
	late.Free()
	if n := Live() - before; n != 0 {
		t.Errorf("%d handles, want 0", n)
	}
}

// A panic, at whatever depth, frees every scope down to the one where it is caught, and names itself in the error.
func TestPanicsInScopes(t *testing.T) {
	var a *Tensor
	err := Do(func() {
		a = Full(1, F32, CPU, 2)
		before := Live()
		inner := Do(func() {
			Scoped(func() *Tensor {
				b := a.Add(a)
				Scoped(func() *Tensor { return b.Matmul(Zeros(F32, CPU, 3, 3)) })
				return b
			})
		})
		var e *Error
		if !errors.As(inner, &e) || e.Op != "matmul" {
			t.Errorf("%v", inner)
		}
		if n := Live(); n != before {
			t.Errorf("%d handles after the panic, %d before", n, before)
		}
		a.Add(a) // the scope around goes on
	})
	if err != nil {
		t.Error(err)
	}
	before := Live()
	err = Do(func() { InScope(func() { Zeros(F32, CPU, 2); panic("a bug") }) })
	if err == nil || !strings.Contains(err.Error(), "a bug") || !strings.Contains(err.Error(), "engine_test.go") {
		t.Errorf("a bug's error names neither itself nor its place: %v", err)
	}
	if n := Live(); n != before {
		t.Errorf("%d handles, want %d", n, before)
	}
	_ = Do(func() { WithGrad(func() { panic("in grad mode") }) })
	do(t, func() {
		if gradOn() {
			t.Error("grad mode stays on after a panic")
		}
	})
}

func gradOn() bool {
	x := Zeros(F32, CPU, 1).RequireGrad(true)
	e := Try(func() error { Grad([]*Tensor{x.MulScalar(2)}, nil, []*Tensor{x}); return nil })
	return e == nil
}

func TestGradModes(t *testing.T) {
	do(t, func() {
		var seen []bool
		look := func() { seen = append(seen, gradOn()) }
		look()
		WithGrad(func() {
			look()
			NoGrad(func() { look(); WithGrad(look) })
			if err := Do(look); err != nil { // a nested Do keeps the mode: it is the thread's
				t.Error(err)
			}
			look()
		})
		look()
		if want := []bool{false, true, false, true, true, true, false}; !slices.Equal(seen, want) {
			t.Errorf("%v, want %v", seen, want)
		}
	})
}

func TestDoNested(t *testing.T) {
	do(t, func() {
		a := Full(1, F32, CPU, 2)
		var lost *Tensor
		if err := Do(func() { lost = a.Add(a) }); err != nil {
			t.Error(err)
		}
		if lost.String() != "tensor(freed)" {
			t.Errorf("a result of a nested Do outlives it: %v", lost)
		}
	})
	if err := Try(func() error { return fmt.Errorf("own error") }); err == nil || err.Error() != "own error" {
		t.Error(err)
	}
	if err := Try(func() error { Zeros(F32, CPU, 2).Reshape(3); return nil }); err == nil {
		t.Error("no error")
	}
}

func TestOutsideOfDo(t *testing.T) {
	defer func() {
		if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "outside torch.Do") {
			t.Error(r)
		}
	}()
	before := Live()
	defer func() {
		if n := Live(); n != before {
			t.Errorf("%d handles, want %d", n, before)
		}
	}()
	Zeros(F32, CPU, 1)
}

// runtime.Goexit on the engine thread (a t.FailNow inside Do) is an error, and the next Do works.
func TestGoexit(t *testing.T) {
	before := Live()
	err := Do(func() { Zeros(F32, CPU, 2); WithGrad(runtime.Goexit) })
	if err == nil || !strings.Contains(err.Error(), "FailNow") {
		t.Errorf("%v", err)
	}
	do(t, func() {
		if gradOn() {
			t.Error("grad mode is on")
		}
	})
	if n := Live(); n != before {
		t.Errorf("%d handles, want %d", n, before)
	}
}

// Many goroutines submit at once: the work is done one job at a time.
func TestDoConcurrent(t *testing.T) {
	var wg sync.WaitGroup
	before := Live()
	sum := 0 // no lock: all jobs run on one thread
	for i := range 50 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := Do(func() { sum += int(Full(float64(i), F32, CPU, 2).SumAll().Item()) }); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	if sum != 2*49*50/2 || Live() != before {
		t.Errorf("sum %d, %d handles, %d before", sum, Live(), before)
	}
}

func TestTeam(t *testing.T) {
	defer SetNumThreads(NumThreads())
	for _, n := range []int{1, 2, 3} {
		SetNumThreads(n)
		if NumThreads() != n || TeamSize() != n {
			t.Errorf("%d threads asked for, %d set, a parallel region gets %d", n, NumThreads(), TeamSize())
		}
	}
}
