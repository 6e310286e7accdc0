package torch

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// Tests whose names begin with TestKernel run again under every instruction set: see isa_test.go.

func TestKernelRMSNorm(t *testing.T) {
	for _, n := range []int64{1, 3, 200} {
		for _, c := range []int64{1, 7, 16, 33, 64, 130} {
			t.Run(fmt.Sprintf("%dx%d", n, c), func(t *testing.T) {
				do(t, func() {
					WithGrad(func() {
						x, x64 := leaf(1, n, c)
						w, w64 := leaf(2, c)
						plain := x64.Mul(x64.Square().Mean(-1, true).AddScalar(1e-6).Rsqrt()).Mul(w64)
						sameGrads(t, RMSNorm(x, w, 1e-6), plain, []*Tensor{x, w}, []*Tensor{x64, w64})
					})
				})
			})
		}
	}
}

func TestKernelRMSNormViews(t *testing.T) {
	do(t, func() {
		x, w := Randn(1, F32, CPU, 20, 6), Randn(2, F32, CPU, 20)
		want := RMSNorm(x.Transpose(0, 1).Contiguous(), w, 1e-6)
		sameBits(t, "transposed rows", RMSNorm(x.Transpose(0, 1), w, 1e-6), want)
		wide := Cat(0, Zeros(F32, CPU, 3), w)
		sameBits(t, "narrowed weight", RMSNorm(x.Transpose(0, 1), wide.Narrow(0, 3, 20), 1e-6), want)
		if got := RMSNorm(Zeros(F32, CPU, 0, 20), w, 1e-6).Shape(); got[0] != 0 || got[1] != 20 {
			t.Errorf("no rows give %v", got)
		}
		// Rows of three dimensions are normalised over the last.
		near(t, "three dimensions", RMSNorm(Randn(1, F32, CPU, 2, 3, 20), w, 1e-6).Reshape(6, 20), RMSNorm(Randn(1, F32, CPU, 2, 3, 20).Reshape(6, 20), w, 1e-6), 0)
	})
}

func TestKernelSwiGLU(t *testing.T) {
	for _, f := range []int64{1, 5, 8, 16, 67} {
		do(t, func() {
			WithGrad(func() {
				x, x64 := leaf(1, 9, 2*f)
				// × 3, so that the sigmoid leaves its straight part
				y := SwiGLU(x.MulScalar(3))
				plain := x64.MulScalar(3)
				plain = plain.Narrow(1, 0, f).Silu().Mul(plain.Narrow(1, f, f))
				sameGrads(t, y, plain, []*Tensor{x}, []*Tensor{x64})
			})
		})
	}
	do(t, func() { // far out: silu(-200) is 0, silu(200) is 200, no NaN
		got := Data[float64](SwiGLU(Of([]float32{-200, 200, 0, 1, 1, 1}, 1, 6)))
		nearSlices(t, "saturated", got, []float64{0, 200, 0}, 1e-6)
	})
}

// ropePlain is the formula of Rope in plain ops; x [n, h, d].
func ropePlain(x, cos, sin, pos *Tensor) *Tensor {
	n, half := x.Dim(0), x.Dim(2)/2
	c, s := cos.IndexSelect(0, pos).Reshape(n, 1, half), sin.IndexSelect(0, pos).Reshape(n, 1, half)
	a, b := x.Narrow(2, 0, half), x.Narrow(2, half, half)
	return Cat(2, a.Mul(c).Sub(b.Mul(s)), b.Mul(c).Add(a.Mul(s)))
}

func TestKernelRope(t *testing.T) {
	for _, c := range []struct{ n, h, d int64 }{{1, 1, 2}, {5, 3, 6}, {7, 2, 16}, {40, 4, 32}, {3, 9, 64}, {4, 2, 80}, {0, 2, 8}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			do(t, func() {
				cos, sin := Randn(5, F32, CPU, 50, c.d/2), Randn(6, F32, CPU, 50, c.d/2)
				r, ids := random(1), make([]int64, c.n)
				for i := range ids {
					ids[i] = r.Int64N(50)
				}
				pos := Of(ids)
				WithGrad(func() {
					x, x64 := leaf(1, c.n, c.h, c.d)
					sameGrads(t, Rope(x, cos, sin, pos), ropePlain(x64, cos.To(F64, CPU), sin.To(F64, CPU), pos), []*Tensor{x}, []*Tensor{x64})
				})
			})
		})
	}
}

// Query and key are slices of one fused projection: rows lie apart. Or heads do.
func TestKernelRopeViews(t *testing.T) {
	const n, h, d = 6, 3, 8
	views := map[string]func(*Tensor) *Tensor{
		"queries of a fused projection": func(x *Tensor) *Tensor { return x.Narrow(1, 0, h*d).Reshape(n, h, d) },
		"keys of a fused projection":    func(x *Tensor) *Tensor { return x.Narrow(1, h*d, h*d).Reshape(n, h, d) },
		"heads first":                   func(x *Tensor) *Tensor { return x.Reshape(2*h, n, d).Narrow(0, 0, h).Transpose(0, 1) },
		"strided within a head":         func(x *Tensor) *Tensor { return x.Reshape(n, 2*h, d).Narrow(1, 0, h).Reshape(n, d, h).Transpose(1, 2) },
	}
	for name, view := range views {
		t.Run(name, func(t *testing.T) {
			do(t, func() {
				cos, sin, pos := Randn(5, F32, CPU, 9, d/2), Randn(6, F32, CPU, 9, d/2), Of([]int64{8, 0, 3, 3, 1, 7})
				WithGrad(func() {
					x, x64 := leaf(1, n, 2*h*d)
					sameGrads(t, Rope(view(x), cos, sin, pos), ropePlain(view(x64), cos.To(F64, CPU), sin.To(F64, CPU), pos), []*Tensor{x}, []*Tensor{x64})
				})
			})
		})
	}
}

// The plain form that other dtypes take computes the same.
func TestKernelFallbacks(t *testing.T) {
	do(t, func() {
		x, w := Randn(1, F32, CPU, 5, 24), Randn(2, F32, CPU, 24)
		cos, sin, pos := Randn(5, F32, CPU, 9, 4), Randn(6, F32, CPU, 9, 4), Of([]int64{8, 0, 3, 3, 1})
		x16 := x.To(BF16, CPU)
		// bf16 keeps 8 bits: 2⁻⁸ = .004 for each of the two roundings
		near(t, "rms_norm bf16", RMSNorm(x16, w.To(BF16, CPU), 1e-6), RMSNorm(x16.To(F32, CPU), w, 1e-6), .01)
		near(t, "swiglu bf16", SwiGLU(x16), SwiGLU(x16.To(F32, CPU)), .01)
		near(t, "rope bf16", Rope(x16.Reshape(5, 3, 8), cos, sin, pos), Rope(x16.To(F32, CPU).Reshape(5, 3, 8), cos, sin, pos), .005)
		near(t, "rms_norm f64", RMSNorm(x.To(F64, CPU), w.To(F64, CPU), 1e-6), RMSNorm(x, w, 1e-6), 1e-6)
	})
}

// No weight is off by more than half a scale, zeros stay zeros, and the largest of a row is exact.
func TestKernelQuantizeRows(t *testing.T) {
	for _, c := range []struct {
		out, in int64
		dt      DType
	}{{1, 1, F32}, {7, 33, F32}, {5, 64, BF16}, {3, 1 << 19, F32}, {0, 4, F32}} {
		do(t, func() {
			w := Randn(1, F32, CPU, c.out, c.in).To(c.dt, CPU)
			if c.out > 2 {
				w.Narrow(0, 2, 1).ZeroInPlace()
			}
			q, scale := QuantizeRows(w)
			if q.DType() != I8 || scale.DType() != F32 || !slices.Equal(q.Shape(), w.Shape()) || !slices.Equal(scale.Shape(), []int64{c.out}) {
				t.Fatalf("%v: %v and %v", c, q, scale)
			}
			ws, qs := Data[float32](w), Data[float32](q)
			for r, s := range Data[float32](scale) {
				row, top := ws[r*int(c.in):(r+1)*int(c.in)], 0.0
				for _, v := range row {
					top = max(top, math.Abs(float64(v)))
				}
				if math.Abs(float64(s)*127-top) > 1e-6*top {
					t.Errorf("%v: scale %g for a largest weight of %g", c, s, top)
				}
				for i, v := range row {
					got := float64(qs[r*int(c.in)+i]) * float64(s)
					if bound := top / 254 * (1 + 1e-5); !(math.Abs(got-float64(v)) <= bound) {
						t.Fatalf("%v: row %d, weight %d is %g, want %g ± %g", c, r, i, got, v, bound)
					}
				}
			}
		})
	}
}

// Packed weights of every type give what plain double arithmetic makes of the same numbers, a row alone has the same bits,
// and those of fp32 are Linear's.
func TestKernelLinearPacked(t *testing.T) {
	for _, c := range []struct{ n, in, out int64 }{{1, 1, 1}, {1, 33, 5}, {7, 40, 64}, {20, 131, 99}, {13, 600, 33}, {0, 8, 3}, {3, 8, 0}} {
		do(t, func() {
			x, w, b := Randn(1, F32, CPU, c.n, c.in), Randn(2, F32, CPU, c.out, c.in), Randn(3, F32, CPU, c.out)
			q, scale := QuantizeRows(w)
			for _, bias := range []*Tensor{nil, b} {
				check := func(what string, packed, scale, exact *Tensor) *Tensor {
					want := x.To(F64, CPU).Matmul(exact.To(F64, CPU).Transpose(0, 1))
					if bias != nil {
						want = want.Add(bias.To(F64, CPU))
					}
					y := LinearPacked(x, packed, c.out, scale, bias)
					near(t, what, y, want, 1e-5)
					for i := range c.n {
						sameBits(t, "a row alone", LinearPacked(x.Narrow(0, i, 1), packed, c.out, scale, bias), y.Narrow(0, i, 1))
					}
					return y
				}
				half := w.To(BF16, CPU)
				check("bf16", PackRows(half), nil, half)
				check("int8", PackRows(q), scale, q.To(F64, CPU).Mul(scale.To(F64, CPU).Reshape(-1, 1)))
				sameBits(t, "plain", Linear(x, w, bias), check("fp32", PackRows(w), nil, w))
			}
		})
	}
	do(t, func() { // rows and columns need not lie together
		x, w := Randn(1, F32, CPU, 9, 6), Randn(2, F32, CPU, 9, 8).Transpose(0, 1)
		sameBits(t, "views", LinearPacked(x.Transpose(0, 1), PackRows(w), 8, nil, nil), Linear(x.Transpose(0, 1).Contiguous(), w.Contiguous(), nil))
	})
}

func TestKernelArguments(t *testing.T) {
	z := func(shape ...int64) *Tensor { return Zeros(F32, CPU, shape...) }
	pos := func(p ...int64) *Tensor { return Of(p) }
	for name, c := range map[string]struct {
		code Code
		f    func()
	}{
		"rms_norm: weight of another width":       {CodeShape, func() { RMSNorm(z(2, 3), z(4), 1e-6) }},
		"rms_norm: no columns":                    {CodeShape, func() { RMSNorm(z(2, 0), z(0), 1e-6) }},
		"swiglu: odd width":                       {CodeShape, func() { SwiGLU(z(2, 3)) }},
		"swiglu: one dimension":                   {CodeShape, func() { SwiGLU(z(4)) }},
		"rope: table of another width":            {CodeShape, func() { Rope(z(2, 1, 8), z(5, 3), z(5, 3), pos(0, 1)) }},
		"rope: tables differ":                     {CodeShape, func() { Rope(z(2, 1, 8), z(5, 4), z(4, 4), pos(0, 1)) }},
		"rope: too few positions":                 {CodeShape, func() { Rope(z(2, 1, 8), z(5, 4), z(5, 4), pos(0)) }},
		"rope: float positions":                   {CodeShape, func() { Rope(z(2, 1, 8), z(5, 4), z(5, 4), z(2)) }},
		"rope: position behind the table":         {CodeIndex, func() { Rope(z(2, 1, 8), z(5, 4), z(5, 4), pos(0, 5)) }},
		"rope: negative position":                 {CodeIndex, func() { Rope(z(2, 1, 8), z(5, 4), z(5, 4), pos(-1, 0)) }},
		"linear_packed: weights of another width": {CodeShape, func() { LinearPacked(z(2, 3), z(1, 4, PanelSize), 5, nil, nil) }},
		"linear_packed: weights that are not":     {CodeShape, func() { LinearPacked(z(2, 3), z(5, 3), 5, nil, nil) }},
		"linear_packed: more outputs":             {CodeShape, func() { LinearPacked(z(2, 3), z(1, 3, PanelSize), PanelSize+1, nil, nil) }},
		"linear_packed: int8 without a scale":     {CodeShape, func() { LinearPacked(z(2, 3), Zeros(I8, CPU, 1, 3, PanelSize), 5, nil, nil) }},
		"linear_packed: a scale for fp32":         {CodeShape, func() { LinearPacked(z(2, 3), z(1, 3, PanelSize), 5, z(5), nil) }},
		"linear_packed: bias of another length":   {CodeShape, func() { LinearPacked(z(2, 3), z(1, 3, PanelSize), 5, nil, z(4)) }},
		"linear_packed: weights in int64":         {CodeType, func() { LinearPacked(z(2, 3), Zeros(I64, CPU, 1, 3, PanelSize), 5, nil, nil) }},
		"linear_packed: x in bf16":                {CodeUnsupported, func() { LinearPacked(Zeros(BF16, CPU, 2, 3), z(1, 3, PanelSize), 5, nil, nil) }},
		"linear_packed: a gradient is asked for": {CodeUnsupported, func() {
			WithGrad(func() { LinearPacked(z(2, 3).RequireGrad(true), z(1, 3, PanelSize), 5, nil, nil) })
		}},
		"pack_rows: a vector":       {CodeShape, func() { PackRows(z(3)) }},
		"quantize_rows: a vector":   {CodeShape, func() { QuantizeRows(z(3)) }},
		"quantize_rows: no columns": {CodeShape, func() { QuantizeRows(z(3, 0)) }},
	} {
		t.Run(name, func(t *testing.T) { t.Log(fails(t, c.code, c.f)) })
	}
}
