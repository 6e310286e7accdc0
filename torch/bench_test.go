package torch

import (
	"fmt"
	"testing"
)

// What an op costs on top of its arithmetic: the cgo call, libtorch's dispatch and the handle.
func BenchmarkSmallOps(b *testing.B) {
	for name, f := range map[string]func(x, w *Tensor){
		"add":             func(x, _ *Tensor) { x.Add(x).Free() },
		"narrow":          func(x, _ *Tensor) { x.Narrow(0, 0, 1).Free() },
		"rms_norm":        func(x, w *Tensor) { RMSNorm(x, w, 1e-6).Free() },
		"shape":           func(x, _ *Tensor) { x.Shape() },
		"add, scoped":     func(x, _ *Tensor) { InScope(func() { x.Add(x) }) },
		"mul_ in place":   func(x, _ *Tensor) { x.MulScalarInPlace(1) },
		"rms_norm, graph": func(x, w *Tensor) { WithGrad(func() { RMSNorm(x, w.RequireGrad(true), 1e-6).Free() }) },
		"item":            func(x, _ *Tensor) { x.Narrow(1, 0, 1).Item() },
	} {
		b.Run(name, func(b *testing.B) {
			if err := Do(func() {
				x, w := Full(1, F32, CPU, 1, 16), Full(1, F32, CPU, 16)
				b.ResetTimer()
				InScope(func() {
					for range b.N {
						f(x, w)
					}
				})
			}); err != nil {
				b.Fatal(err)
			}
		})
	}
	b.Run("hop to the engine thread", func(b *testing.B) {
		for range b.N {
			_ = Do(func() {})
		}
	})
}

func BenchmarkSample(b *testing.B) {
	for _, vocab := range []int64{49152, 151936} {
		for _, name := range []string{"plain", "top-p", "min-p", "all three"} {
			b.Run(fmt.Sprint(vocab, "/", name), func(b *testing.B) {
				if err := Do(func() {
					logits := Randn(1, F32, CPU, 1, vocab).MulScalar(3)
					draws := []Draw{drawKinds[name]}
					draws[0].U = .5
					b.ResetTimer()
					for range b.N {
						Sample(logits, draws, nil)
					}
				}); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}
