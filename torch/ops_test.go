package torch

import (
	"math"
	"slices"
	"testing"
	"unsafe"
)

// Every op once, on numbers whose result is plain to see. a = [1 2 3; 4 5 6], b = [6 5 4; 3 2 1].
func TestOps(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	e := math.Exp
	sig := func(x float64) float64 { return 1 / (1 + e(-x)) }
	cases := []struct {
		name  string
		f     func(a, b *Tensor) *Tensor
		shape []int64
		want  []float64
	}{
		{"add", (*Tensor).Add, []int64{2, 3}, []float64{7, 7, 7, 7, 7, 7}},
		{"sub", (*Tensor).Sub, []int64{2, 3}, []float64{-5, -3, -1, 1, 3, 5}},
		{"mul", (*Tensor).Mul, []int64{2, 3}, []float64{6, 10, 12, 12, 10, 6}},
		{"div", (*Tensor).Div, []int64{2, 3}, []float64{1. / 6, .4, .75, 4. / 3, 2.5, 6}},
		{"maximum", (*Tensor).Maximum, []int64{2, 3}, []float64{6, 5, 4, 4, 5, 6}},
		{"minimum", (*Tensor).Minimum, []int64{2, 3}, []float64{1, 2, 3, 3, 2, 1}},
		{"eq", func(a, b *Tensor) *Tensor { return a.Eq(a.Maximum(b)) }, []int64{2, 3}, []float64{0, 0, 0, 1, 1, 1}},
		// [1·6+2·5+3·4, 1·3+2·2+3·1; 4·6+5·5+6·4, 4·3+5·2+6·1]
		{"matmul", func(a, b *Tensor) *Tensor { return a.Matmul(b.Transpose(0, 1)) }, []int64{2, 2}, []float64{28, 10, 73, 28}},
		{"linear", func(a, b *Tensor) *Tensor { return Linear(a, b, Of([]float32{100, 200})) }, []int64{2, 2}, []float64{128, 210, 173, 228}},
		{"linear without bias", func(a, b *Tensor) *Tensor { return Linear(a, b, nil) }, []int64{2, 2}, []float64{28, 10, 73, 28}},
		{"add_scalar", func(a, _ *Tensor) *Tensor { return a.AddScalar(.5) }, []int64{2, 3}, []float64{1.5, 2.5, 3.5, 4.5, 5.5, 6.5}},
		{"mul_scalar", func(a, _ *Tensor) *Tensor { return a.MulScalar(-2) }, []int64{2, 3}, []float64{-2, -4, -6, -8, -10, -12}},
		{"pow", func(a, _ *Tensor) *Tensor { return a.Pow(3) }, []int64{2, 3}, []float64{1, 8, 27, 64, 125, 216}},
		{"clamp_min", func(a, _ *Tensor) *Tensor { return a.ClampMin(2.5) }, []int64{2, 3}, []float64{2.5, 2.5, 3, 4, 5, 6}},
		{"clamp_max", func(a, _ *Tensor) *Tensor { return a.ClampMax(2.5) }, []int64{2, 3}, []float64{1, 2, 2.5, 2.5, 2.5, 2.5}},
		{"neg", func(a, _ *Tensor) *Tensor { return a.Neg() }, []int64{2, 3}, []float64{-1, -2, -3, -4, -5, -6}},
		{"exp", func(a, _ *Tensor) *Tensor { return a.Exp() }, []int64{2, 3}, []float64{e(1), e(2), e(3), e(4), e(5), e(6)}},
		{"log", func(a, _ *Tensor) *Tensor { return a.Exp().Log() }, []int64{2, 3}, []float64{1, 2, 3, 4, 5, 6}},
		{"sigmoid", func(a, _ *Tensor) *Tensor { return a.Narrow(0, 0, 1).Sigmoid() }, []int64{1, 3}, []float64{sig(1), sig(2), sig(3)}},
		{"silu", func(a, _ *Tensor) *Tensor { return a.Narrow(0, 0, 1).Silu() }, []int64{1, 3}, []float64{sig(1), 2 * sig(2), 3 * sig(3)}},
		{"square", func(a, _ *Tensor) *Tensor { return a.Square() }, []int64{2, 3}, []float64{1, 4, 9, 16, 25, 36}},
		{"sqrt", func(a, _ *Tensor) *Tensor { return a.Square().Sqrt() }, []int64{2, 3}, []float64{1, 2, 3, 4, 5, 6}},
		{"rsqrt", func(a, _ *Tensor) *Tensor { return a.Square().Rsqrt() }, []int64{2, 3}, []float64{1, .5, 1. / 3, .25, .2, 1. / 6}},
		{"abs", func(a, b *Tensor) *Tensor { return a.Sub(b).Abs() }, []int64{2, 3}, []float64{5, 3, 1, 1, 3, 5}},
		{"isnan", func(a, _ *Tensor) *Tensor { return Of([]float64{nan, inf, 0}).IsNaN() }, []int64{3}, []float64{1, 0, 0}},
		{"sum 0", func(a, _ *Tensor) *Tensor { return a.Sum(0, false) }, []int64{3}, []float64{5, 7, 9}},
		{"sum -1, kept", func(a, _ *Tensor) *Tensor { return a.Sum(-1, true) }, []int64{2, 1}, []float64{6, 15}},
		{"mean", func(a, _ *Tensor) *Tensor { return a.Mean(1, false) }, []int64{2}, []float64{2, 5}},
		{"max", func(a, b *Tensor) *Tensor { return b.Max(0, false) }, []int64{3}, []float64{6, 5, 4}},
		{"argmax", func(a, b *Tensor) *Tensor { return b.Argmax(1) }, []int64{2}, []float64{0, 0}},
		{"sum of all", func(a, _ *Tensor) *Tensor { return a.SumAll() }, nil, []float64{21}},
		{"logsumexp", func(a, _ *Tensor) *Tensor { return a.LogSumExp(1, true) }, []int64{2, 1},
			[]float64{math.Log(e(1) + e(2) + e(3)), math.Log(e(4) + e(5) + e(6))}},
		{"softmax", func(a, _ *Tensor) *Tensor { return a.Narrow(1, 0, 2).Softmax(1) }, []int64{2, 2}, []float64{sig(-1), sig(1), sig(-1), sig(1)}},
		{"log_softmax", func(a, _ *Tensor) *Tensor { return a.Narrow(1, 0, 2).LogSoftmax(1).Exp() }, []int64{2, 2}, []float64{sig(-1), sig(1), sig(-1), sig(1)}},
		{"reshape", func(a, _ *Tensor) *Tensor { return a.Reshape(3, -1) }, []int64{3, 2}, []float64{1, 2, 3, 4, 5, 6}},
		{"transpose", func(a, _ *Tensor) *Tensor { return a.Transpose(0, -1).Contiguous() }, []int64{3, 2}, []float64{1, 4, 2, 5, 3, 6}},
		{"narrow", func(a, _ *Tensor) *Tensor { return a.Narrow(1, 1, 2) }, []int64{2, 2}, []float64{2, 3, 5, 6}},
		{"cat", func(a, b *Tensor) *Tensor { return Cat(1, a, b.Narrow(1, 0, 1)) }, []int64{2, 4}, []float64{1, 2, 3, 6, 4, 5, 6, 3}},
		{"index_select", func(a, _ *Tensor) *Tensor { return a.IndexSelect(0, Of([]int64{1, 0, 1})) }, []int64{3, 3}, []float64{4, 5, 6, 1, 2, 3, 4, 5, 6}},
		{"gather", func(a, _ *Tensor) *Tensor { return a.Gather(1, Of([]int64{2, 0}, 2, 1)) }, []int64{2, 1}, []float64{3, 4}},
		{"masked_fill", func(a, b *Tensor) *Tensor { return a.MaskedFill(a.Eq(a.Maximum(b)), -1) }, []int64{2, 3}, []float64{1, 2, 3, -1, -1, -1}},
		// ids 1, 1: rows [1 2 3] and [4 5 6] add up in row 1
		{"embedding_backward", func(a, _ *Tensor) *Tensor { return EmbeddingBackward(a, Of([]int64{1, 1}), 3) }, []int64{3, 3}, []float64{0, 0, 0, 5, 7, 9, 0, 0, 0}},
		{"index_add_", func(a, _ *Tensor) *Tensor { return a.Clone().IndexAddInPlace(0, Of([]int64{0, 0}), a) }, []int64{2, 3}, []float64{6, 9, 12, 4, 5, 6}},
		{"add_", func(a, b *Tensor) *Tensor { return a.Clone().AddInPlace(b, 10) }, []int64{2, 3}, []float64{61, 52, 43, 34, 25, 16}},
		{"mul_", func(a, b *Tensor) *Tensor { return a.Clone().MulInPlace(b) }, []int64{2, 3}, []float64{6, 10, 12, 12, 10, 6}},
		{"mul_ scalar", func(a, _ *Tensor) *Tensor { return a.Clone().MulScalarInPlace(2) }, []int64{2, 3}, []float64{2, 4, 6, 8, 10, 12}},
		{"zero_", func(a, _ *Tensor) *Tensor { return a.Clone().ZeroInPlace() }, []int64{2, 3}, make([]float64, 6)},
		{"fill_", func(a, _ *Tensor) *Tensor { return a.Clone().FillInPlace(3) }, []int64{2, 3}, []float64{3, 3, 3, 3, 3, 3}},
		{"copy_", func(a, b *Tensor) *Tensor { return a.Clone().CopyInPlace(b.To(BF16, CPU)) }, []int64{2, 3}, []float64{6, 5, 4, 3, 2, 1}},
		{"to i32", func(a, _ *Tensor) *Tensor { return a.MulScalar(.5).To(I32, CPU) }, []int64{2, 3}, []float64{0, 1, 1, 2, 2, 3}},
		{"arange", func(a, _ *Tensor) *Tensor { return Arange(4, I64, CPU) }, []int64{4}, []float64{0, 1, 2, 3}},
		{"full", func(a, _ *Tensor) *Tensor { return Full(1.5, BF16, CPU, 1, 2) }, []int64{1, 2}, []float64{1.5, 1.5}},
		// out = 2·[1 1; 1 1] + a·bᵀ
		{"addmm_", func(a, b *Tensor) *Tensor {
			o := Full(1, F32, CPU, 2, 2)
			MatmulInto(o, 2, a, false, b, true)
			return o
		}, []int64{2, 2}, []float64{30, 12, 75, 30}},
		// aᵀ·b, over what was NaN: beta 0 forgets it
		{"addmm_ transposed", func(a, b *Tensor) *Tensor {
			o := Full(nan, F32, CPU, 3, 3)
			MatmulInto(o, 0, a, true, b, false)
			return o
		},
			[]int64{3, 3}, []float64{18, 13, 8, 27, 20, 13, 36, 27, 18}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			do(t, func() {
				a, b := Of([]float32{1, 2, 3, 4, 5, 6}, 2, 3), Of([]float32{6, 5, 4, 3, 2, 1}, 2, 3)
				got := c.f(a, b)
				if !slices.Equal(got.Shape(), c.shape) && len(got.Shape())+len(c.shape) > 0 {
					t.Errorf("shape %v, want %v", got.Shape(), c.shape)
				}
				nearSlices(t, c.name, Data[float64](got), c.want, 1e-6)
				near(t, "a is as it was", a, Of([]float32{1, 2, 3, 4, 5, 6}), 0)
			})
		})
	}
}

func TestSDPA(t *testing.T) {
	do(t, func() {
		q, k, v := Randn(1, F64, CPU, 5, 4, 8), Randn(2, F64, CPU, 5, 2, 8), Randn(3, F64, CPU, 5, 2, 8)
		batched := func(x *Tensor) *Tensor { return x.Transpose(0, 1).Reshape(1, x.Dim(1), 5, 8) }
		got := SDPA(batched(q), batched(k), batched(v), nil, true, .3)
		near(t, "causal, grouped", got.Reshape(4, 5, 8).Transpose(0, 1), attentionPlain(q, k, v, .3), 1e-12)
		mask := Zeros(F64, CPU, 5, 5) // an added mask that leaves only the first key
		mask.Narrow(1, 1, 4).FillInPlace(math.Inf(-1))
		first := SDPA(batched(q), batched(k), batched(v), mask, false, .3)
		near(t, "masked", first.Narrow(2, 4, 1).Narrow(1, 3, 1), batched(v).Narrow(2, 0, 1).Narrow(1, 1, 1), 1e-12)
	})
}

// A seed gives the same numbers in every dtype (rounded), and others for another seed.
func TestRandn(t *testing.T) {
	do(t, func() {
		for _, n := range []int64{1, 15, 16, 1000} { // libtorch draws in two ways, by size
			a := Randn(5, F32, CPU, n)
			for _, dt := range []DType{F64, BF16, F16} {
				near(t, dt.String(), Randn(5, dt, CPU, n), a.To(dt, CPU), 0)
			}
			if slices.Equal(Data[float32](a), Data[float32](Randn(6, F32, CPU, n))) {
				t.Error("two seeds give the same numbers")
			}
		}
		x := Data[float64](Randn(1, F32, CPU, 100000))
		var mean, square float64
		for _, v := range x {
			mean += v / 1e5
			square += v * v / 1e5
		}
		// the mean's deviation is 1/√1e5 = .003, the variance's √2 of it
		if !(math.Abs(mean) <= .015) || !(math.Abs(square-1) <= .02) {
			t.Errorf("mean %v, variance %v", mean, square)
		}
	})
}

func TestData(t *testing.T) {
	do(t, func() {
		roundTrip(t, []float32{1.5, -2, 3}, F32)
		roundTrip(t, []float64{1.5, -2, 3}, F64)
		roundTrip(t, []int64{1, -2, 1 << 40}, I64)
		roundTrip(t, []int32{1, -2, 1 << 30}, I32)
		roundTrip(t, []uint8{1, 2, 255}, U8)
		roundTrip(t, []int8{1, -2, 127}, I8)
		if got := Data[int32](Of([]float32{1.9, -2.9}).Transpose(0, 0)); !slices.Equal(got, []int32{1, -2}) {
			t.Error(got)
		}
		if got := Data[float32](Of([]float32{1, 2, 3, 4}, 2, 2).Transpose(0, 1)); !slices.Equal(got, []float32{1, 3, 2, 4}) {
			t.Error(got)
		}
		own := []float32{1, 2, 3}
		b := Borrow(unsafe.Pointer(&own[0]), F32, 3)
		b.MulScalarInPlace(2)
		if own[2] != 6 || len(b.Bytes()) != 12 || Zeros(F32, CPU, 0).Bytes() != nil {
			t.Error("Borrow copies", own)
		}
		buf := make([]byte, 4)
		Of([]float32{1, 2}).To(BF16, CPU).CopyTo(buf)
		if !slices.Equal(buf, []byte{0x80, 0x3f, 0, 0x40}) { // 1 and 2 in bf16
			t.Errorf("% x", buf)
		}
		if s := Zeros(BF16, CPU, 2, 1).String(); s != "tensor(BF16 [2 1] cpu)" {
			t.Error(s)
		}
	})
}

func roundTrip[T Element](t *testing.T, x []T, dt DType) {
	a := Of(x)
	if got := Data[T](a); !slices.Equal(got, x) || a.DType() != dt || dt.Size() != int(unsafe.Sizeof(x[0])) || a.Numel() != 3 || a.Dim(-1) != 3 {
		t.Errorf("%v: %v of %v", dt, got, a)
	}
}

func TestAllFinite(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, dt := range []DType{F32, F64, BF16, F16} {
		for bad, want := range map[float64]bool{0: true, -6e4: true, nan: false, inf: false, -inf: false} {
			do(t, func() {
				for _, n := range []int64{1, 17, 1000} {
					x := Full(6e4, dt, CPU, n) // the sum would overflow in F16
					x.Narrow(0, n-1, 1).FillInPlace(bad)
					if got := x.AllFinite(); got != want {
						t.Errorf("%v: %v beside %d numbers: %v", dt, bad, n-1, got)
					}
				}
			})
		}
	}
	do(t, func() {
		if !Zeros(F32, CPU, 0).AllFinite() || !Of([]int64{1}).AllFinite() {
			t.Error("nothing, or integers, are not finite")
		}
		if x := Full(nan, F32, CPU, 2, 3); !Zeros(F32, CPU, 2, 4).Narrow(1, 0, 3).AllFinite() || x.Narrow(1, 1, 1).AllFinite() {
			t.Error("views")
		}
	})
}

// Several outputs and inputs; one input that the output does not depend on.
func TestGrad(t *testing.T) {
	do(t, func() {
		WithGrad(func() {
			x, y, z := Of([]float32{2}).RequireGrad(true), Of([]float32{3}).RequireGrad(true), Of([]float32{4}).RequireGrad(true)
			out := x.Mul(x).Mul(y) // x²y
			g := Grad([]*Tensor{out.SumAll()}, nil, []*Tensor{x, z, y})
			if g[0].Item() != 12 || g[1] != nil || g[2].Item() != 4 {
				t.Error(g)
			}
			two := Grad([]*Tensor{x.Mul(y), y.Mul(y)}, []*Tensor{Of([]float32{10}), Of([]float32{1})}, []*Tensor{x, y})
			if two[0].Item() != 30 || two[1].Item() != 26 { // 10y; 10x + 2y
				t.Error(two[0].Item(), two[1].Item())
			}
		})
	})
	fails(t, CodeShape, func() { // recording is off by default
		x := Zeros(F32, CPU, 1).RequireGrad(true)
		Grad([]*Tensor{x.MulScalar(2)}, nil, []*Tensor{x})
	})
}
