package torch

import (
	"math"
	"math/rand/v2"
	"testing"
)

// do runs f on the engine thread and checks that no handle is left behind.
func do(t testing.TB, f func()) {
	t.Helper()
	before := Live()
	if err := Do(f); err != nil {
		t.Fatal(err)
	}
	if n := Live(); n != before {
		t.Fatalf("%d handles are left, %d before", n, before)
	}
}

// fails runs f, which must panic with an Error of the given code, and gives that error.
func fails(t testing.TB, code Code, f func()) *Error {
	t.Helper()
	var e *Error
	before := Live()
	err := Do(f)
	if n := Live(); n != before {
		t.Errorf("%d handles are left, %d before", n, before)
	}
	e, ok := err.(*Error)
	if !ok {
		t.Errorf("got %v, want an *Error", err)
		return &Error{}
	}
	if e.Code != code {
		t.Errorf("code %d, want %d: %v", e.Code, code, e)
	}
	return e
}

// near compares element by element, relative to the largest element (or 1).
func near(t testing.TB, what string, got, want *Tensor, tol float64) {
	t.Helper()
	nearSlices(t, what, Data[float64](got), Data[float64](want), tol)
}

func nearSlices(t testing.TB, what string, got, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d elements, want %d", what, len(got), len(want))
		return
	}
	size := 1.0
	for _, w := range want {
		size = math.Max(size, math.Abs(w))
	}
	for i, w := range want {
		if d := math.Abs(got[i] - w); !(d <= tol*size) { // NaN fails
			t.Errorf("%s: element %d of %d is %v, want %v (off by %g of %g)", what, i, len(want), got[i], w, d, size)
			return
		}
	}
}

func sameBits(t testing.TB, what string, got, want *Tensor) {
	t.Helper()
	a, b := Data[float32](got), Data[float32](want)
	if len(a) != len(b) {
		t.Errorf("%s: %d elements, want %d", what, len(a), len(b))
		return
	}
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			t.Errorf("%s: element %d is %v, want %v, bit for bit", what, i, a[i], b[i])
			return
		}
	}
}

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// leaf is a tensor of normal numbers that wants a gradient, and the same numbers in fp64.
func leaf(seed uint64, shape ...int64) (f32, f64 *Tensor) {
	a := Randn(seed, F32, CPU, shape...)
	b := a.To(F64, CPU)
	return a.RequireGrad(true), b.RequireGrad(true)
}

// sameGrads compares the gradients of got in ins with those of want in ref, for one random upstream gradient.
func sameGrads(t testing.TB, got, want *Tensor, ins, ref []*Tensor) {
	t.Helper()
	near(t, "value", got.Detach(), want.Detach(), 1e-5)
	up := Randn(99, F32, CPU, got.Shape()...)
	a := Grad([]*Tensor{got}, []*Tensor{up}, ins)
	b := Grad([]*Tensor{want}, []*Tensor{up.To(F64, CPU)}, ref)
	for i := range ins {
		if a[i] == nil || b[i] == nil {
			t.Errorf("gradient %d: %v, want %v", i, a[i], b[i])
			continue
		}
		near(t, "gradient", a[i], b[i], 1e-5)
	}
}
