package bench

import (
	"context"
	"time"

	"seadtrain/torch"
)

// What the machine does at best, measured by turns with what is compared to it, and with the same threads.

// bandwidth is the bytes, in 1e9 per second, that reading a large buffer reaches.
func (b *bench) bandwidth(context.Context) (rate float64, err error) {
	err = torch.Do(func() {
		bytes := b.Sizes.Stream
		x, one := torch.Full(1, torch.F32, torch.CPU, bytes/4096, 1024), torch.Full(1, torch.F32, torch.CPU, 1, 1024)
		// Two ways to read it all; the faster one is nearer to the limit.
		rate = float64(bytes) / 1e9 / min(fastest(3, func() { x.SumAll() }), fastest(3, func() { torch.Linear(one, x, nil) }))
	})
	return rate, err
}

// gemm is the operations, in 1e9 per second, of a large matrix product in the model's precision.
func (b *bench) gemm(context.Context) (rate float64, err error) {
	err = torch.Do(func() {
		const rows, in, out = 1024, 2048, 2048
		dtype := b.engine.Model.DType
		x, w := torch.Randn(1, torch.F32, torch.CPU, rows, in).To(dtype, torch.CPU), torch.Randn(2, torch.F32, torch.CPU, out, in).To(dtype, torch.CPU)
		rate = 2 * rows * in * out / 1e9 / fastest(3, func() { torch.Linear(x, w, nil) })
	})
	return rate, err
}

// fastest is the least number of seconds that one of n calls takes. On the engine thread.
func fastest(n int, f func()) float64 {
	best := 0.0
	for i := range n {
		began := time.Now()
		torch.InScope(f)
		if s := time.Since(began).Seconds(); i == 0 || s < best {
			best = s
		}
	}
	return best
}
