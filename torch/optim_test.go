package torch

import (
	"math"
	"testing"
)

// Decoupled weight decay, then Adam with bias correction (Loshchilov & Hutter 2019, algorithm 2):
// p ← p·(1 − lr·λ); m ← β₁m + (1−β₁)g; v ← β₂v + (1−β₂)g²; p ← p − lr·m̂/(√v̂ + ε)
func adamwPlain(o AdamW, p, g, m, v []float64, step int) {
	c1, c2 := 1-math.Pow(o.Beta1, float64(step)), 1-math.Pow(o.Beta2, float64(step))
	for i := range p {
		p[i] *= 1 - o.LR*o.WeightDecay
		m[i] = o.Beta1*m[i] + (1-o.Beta1)*g[i]
		v[i] = o.Beta2*v[i] + (1-o.Beta2)*g[i]*g[i]
		p[i] -= o.LR * (m[i] / c1) / (math.Sqrt(v[i]/c2) + o.Eps)
	}
}

func TestAdamW(t *testing.T) {
	for _, o := range []AdamW{
		{LR: 1e-2, Beta1: .9, Beta2: .999, Eps: 1e-8, WeightDecay: .01},
		{LR: 1, Beta1: 0, Beta2: .5, Eps: 1e-3},
		{Beta1: .9, Beta2: .999, Eps: 1e-8, WeightDecay: 1}, // learning rate 0 changes nothing
	} {
		do(t, func() {
			var p, g, m, v []*Tensor
			var wp, wm, wv [][]float64
			for i, n := range []int64{1, 7, 33} {
				p, m, v = append(p, Randn(uint64(i), F32, CPU, n)), append(m, Zeros(F32, CPU, n)), append(v, Zeros(F32, CPU, n))
				g = append(g, Zeros(F32, CPU, n))
				wp, wm, wv = append(wp, Data[float64](p[i])), append(wm, make([]float64, n)), append(wv, make([]float64, n))
			}
			for step := 1; step <= 5; step++ {
				for i := range p {
					g[i].CopyInPlace(Randn(uint64(100*step+i), F32, CPU, g[i].Numel()))
					adamwPlain(o, wp[i], Data[float64](g[i]), wm[i], wv[i], step)
				}
				o.Step(p, g, m, v, int64(step))
			}
			for i := range p {
				nearSlices(t, "parameter", Data[float64](p[i]), wp[i], 1e-6)
				nearSlices(t, "first moment", Data[float64](m[i]), wm[i], 1e-6)
				nearSlices(t, "second moment", Data[float64](v[i]), wv[i], 1e-6)
			}
			o.Step(nil, nil, nil, nil, 1)
		})
	}
}

func TestAdamWArguments(t *testing.T) {
	z := func(dt DType, shape ...int64) *Tensor { return Zeros(dt, CPU, shape...) }
	o := AdamW{LR: 1, Eps: 1}
	for name, f := range map[string]func(){
		"lists of different lengths": func() { o.Step([]*Tensor{z(F32, 2)}, nil, []*Tensor{z(F32, 2)}, []*Tensor{z(F32, 2)}, 1) },
		"gradient of another shape": func() {
			o.Step([]*Tensor{z(F32, 2)}, []*Tensor{z(F32, 3)}, []*Tensor{z(F32, 2)}, []*Tensor{z(F32, 2)}, 1)
		},
		"gradient of another dtype": func() {
			o.Step([]*Tensor{z(F32, 2)}, []*Tensor{z(BF16, 2)}, []*Tensor{z(F32, 2)}, []*Tensor{z(F32, 2)}, 1)
		},
		"moment that is not contiguous": func() {
			o.Step([]*Tensor{z(F32, 2, 3)}, []*Tensor{z(F32, 2, 3)}, []*Tensor{z(F32, 3, 2).Transpose(0, 1)}, []*Tensor{z(F32, 2, 3)}, 1)
		},
		"copies of different lengths": func() { CopyAll([]*Tensor{z(F32, 2)}, nil) },
	} {
		t.Run(name, func(t *testing.T) { t.Log(fails(t, CodeShape, f)) })
	}
}

func TestLists(t *testing.T) {
	do(t, func() {
		a, b := Of([]float32{1, 2}), Of([]float32{3, 4, 5}).To(BF16, CPU)
		if got := SumSquares([]*Tensor{a, b}); !(math.Abs(got-55) <= 1e-12) { // 1+4+9+16+25
			t.Error(got)
		}
		// In double: a million squares of .1 (as fp32 has it) add up to 1e6·.1², which fp32 sums miss in the fourth digit.
		tenth := float64(float32(.1))
		if got := SumSquares([]*Tensor{Full(.1, F32, CPU, 1e6)}); !(math.Abs(got/(1e6*tenth*tenth)-1) <= 1e-10) {
			t.Error(got)
		}
		if got := SumSquares(nil); got != 0 {
			t.Error(got)
		}
		if got := SumSquares([]*Tensor{Of([]float32{1, float32(math.NaN())})}); !math.IsNaN(got) {
			t.Error(got)
		}
		ScaleAll([]*Tensor{a, b}, .5)
		near(t, "scaled", Cat(0, a, b.To(F32, CPU)), Of([]float32{.5, 1, 1.5, 2, 2.5}), 0)
		c, d := Zeros(F32, CPU, 2), Zeros(F32, CPU, 3)
		CopyAll([]*Tensor{c, d}, []*Tensor{a, b})
		near(t, "copied", Cat(0, c, d), Of([]float32{.5, 1, 1.5, 2, 2.5}), 0)
		ScaleAll(nil, 2)
		CopyAll(nil, nil)
	})
}
