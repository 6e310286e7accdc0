package torch

import (
	"errors"
	"math"
	"testing"
)

// do runs f on the engine thread and checks that no handle is left behind.
func do(t *testing.T, f func()) {
	t.Helper()
	before := Live()
	if err := Do(f); err != nil {
		t.Fatal(err)
	}
	if n := Live(); n != before {
		t.Fatalf("%d handles are left, %d before", n, before)
	}
}

func TestMatmul(t *testing.T) {
	do(t, func() {
		a := Of([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
		b := Of([]float32{1, 0, 0, 1, 1, 1}, 3, 2)
		// [1+3, 2+3; 4+6, 5+6]
		got := Data[float32](a.Matmul(b))
		for i, want := range []float32{4, 5, 10, 11} {
			if got[i] != want {
				t.Fatalf("matmul %v", got)
			}
		}
	})
}

func TestErrorsOfEveryKind(t *testing.T) {
	for kind, want := range []Code{CodeShape, CodeShape, CodeOutOfMemory, CodeOutOfMemory, CodeUnknown, CodeStd, CodeIndex, CodeDist, CodeUnsupported} {
		var te *Error
		err := Do(func() { throw(kind) })
		if !errors.As(err, &te) {
			t.Fatalf("kind %d: %v", kind, err)
		}
		if te.Code != want && !(kind == 1 && te.Code != 0) {
			t.Errorf("kind %d: code %d, want %d: %v", kind, te.Code, want, err)
		}
		t.Log(kind, err)
	}
	do(t, func() { // the thread works on
		if v := Full(2, F32, CPU, 3).SumAll().Item(); v != 6 {
			t.Fatal(v)
		}
	})
}

func TestTeam(t *testing.T) {
	if n := TeamSize(); n != NumThreads() {
		t.Fatalf("a parallel region gets %d threads of %d", n, NumThreads())
	}
	t.Log(ISA(), Version(), NumThreads())
}

func near(t *testing.T, what string, got, want *Tensor, tol float64) {
	t.Helper()
	a, b := Data[float32](got), Data[float32](want)
	if len(a) != len(b) {
		t.Fatalf("%s: %d elements, want %d", what, len(a), len(b))
	}
	var worst, size float64
	for i := range a {
		d := math.Abs(float64(a[i]) - float64(b[i]))
		if math.IsNaN(d) {
			t.Fatalf("%s: NaN at %d: %v, want %v", what, i, a[i], b[i])
		}
		worst, size = math.Max(worst, d), math.Max(size, math.Abs(float64(b[i])))
	}
	if worst > tol*math.Max(1, size) {
		t.Errorf("%s: off by %g of %g", what, worst, size)
	}
}

func TestRMSNormGrad(t *testing.T) {
	for _, n := range []int64{1, 3, 200} {
		for _, c := range []int64{1, 7, 64, 130} {
			do(t, func() {
				WithGrad(func() {
					x, w := Randn(1, F32, CPU, n, c).RequireGrad(true), Randn(2, F32, CPU, c).RequireGrad(true)
					g := Randn(3, F32, CPU, n, c)
					y := RMSNorm(x, w, 1e-6)
					plain := x.Mul(x.Square().Mean(-1, true).AddScalar(1e-6).Rsqrt()).Mul(w)
					near(t, "rms_norm", y.Detach(), plain.Detach(), 1e-5)
					a, b := Grad([]*Tensor{y}, []*Tensor{g}, []*Tensor{x, w}), Grad([]*Tensor{plain}, []*Tensor{g}, []*Tensor{x, w})
					near(t, "dx", a[0], b[0], 1e-5)
					near(t, "dw", a[1], b[1], 1e-5)
				})
			})
		}
	}
}

func TestSwiGLUGrad(t *testing.T) {
	for _, f := range []int64{1, 5, 8, 67} {
		do(t, func() {
			WithGrad(func() {
				x := Randn(1, F32, CPU, 9, 2*f).MulScalar(3).Detach().RequireGrad(true)
				g := Randn(3, F32, CPU, 9, f)
				y := SwiGLU(x)
				plain := x.Narrow(1, 0, f).Silu().Mul(x.Narrow(1, f, f))
				near(t, "swiglu", y.Detach(), plain.Detach(), 1e-5)
				near(t, "dx", Grad([]*Tensor{y}, []*Tensor{g}, []*Tensor{x})[0], Grad([]*Tensor{plain}, []*Tensor{g}, []*Tensor{x})[0], 1e-5)
			})
		})
	}
}
