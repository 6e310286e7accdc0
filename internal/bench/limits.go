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
		const in = 1024
		panels := b.Sizes.Stream / (4 * in * torch.PanelSize)
		x, one := torch.Full(1, torch.F32, torch.CPU, panels, in, torch.PanelSize), torch.Full(1, torch.F32, torch.CPU, 1, in)
		// Two ways to read it all; the faster one is nearer to the limit.
		rate = 4 * float64(x.Numel()) / 1e9 / min(fastest(3, func() { x.SumAll() }),
			fastest(3, func() { torch.LinearPacked(one, x, panels*torch.PanelSize, nil, nil) }))
	})
	return rate, err
}

// gemm is the operations, in 1e9 per second, of a large matrix product in fp32: by libtorch's BLAS or by our kernel, whichever
// is faster.
func (b *bench) gemm(context.Context) (rate float64, err error) {
	err = torch.Do(func() {
		const rows, in, out = 1024, 2048, 2048
		x, w := torch.Randn(1, torch.F32, torch.CPU, rows, in), torch.Randn(2, torch.F32, torch.CPU, out, in)
		packed := torch.PackRows(w)
		rate = 2 * rows * in * out / 1e9 / min(fastest(3, func() { x.Matmul(w.Transpose(0, 1)) }),
			fastest(3, func() { torch.LinearPacked(x, packed, out, nil, nil) }))
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
