package bench

import (
	"time"

	"seadtrain/torch"
)

// Limits are what the machine does at best, measured now and with the threads that everything else has.
type Limits struct {
	Bandwidth float64 // bytes per second that are read from memory
	GEMM      float64 // floating-point operations per second of a large matrix product in the precision
}

// MeasureLimits reads a buffer of so many bytes, and multiplies matrices.
func MeasureLimits(dtype torch.DType, bytes int64) (l Limits, err error) {
	err = torch.Do(func() {
		torch.InScope(func() {
			x := torch.Full(1, torch.F32, torch.CPU, bytes/4096, 1024)
			one := torch.Full(1, torch.F32, torch.CPU, 1, 1024)
			// Two ways to read it all; the faster one is nearer to the limit.
			l.Bandwidth = float64(bytes) / min(fastest(5, func() { x.SumAll() }), fastest(5, func() { torch.Linear(one, x, nil) }))
		})
		const rows, in, out = 1024, 2048, 2048
		x, w := torch.Randn(1, torch.F32, torch.CPU, rows, in).To(dtype, torch.CPU), torch.Randn(2, torch.F32, torch.CPU, out, in).To(dtype, torch.CPU)
		l.GEMM = 2 * rows * in * out / fastest(8, func() { torch.Linear(x, w, nil) })
	})
	return l, err
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
