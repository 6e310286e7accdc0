package rollout

import (
	"bytes"
	"errors"
	"fmt"

	"seadtrain/model"
	"seadtrain/torch"
)

// padCandidates are the row counts that small forwards may be padded to. Matrix libraries switch kernels at such sizes.
var padCandidates = []int{1, 8, 16, 32, 64}

// ErrNotInvariant says that no padding makes rows independent of their number on this processor.
var ErrNotInvariant = errors.New("rows of a matrix product depend on their number")

// invariantRows finds the smallest candidate from which the bits of a product's row depend neither on the number of rows
// (up to maxRows), nor on the row's place, nor on the number of threads, for every weight shape of the model. The kernels
// around the products work row by row and need no probe.
func invariantRows(m *model.Model, maxRows int) (pad int, err error) {
	if m.DType != torch.F32 || m.Device != torch.CPU {
		return 0, fmt.Errorf("it is for F32 on the CPU only, not %v on %v", m.DType, m.Device)
	}
	low := 0
	err = torch.Do(func() {
		for _, w := range probed(m) {
			bias := torch.Randn(2, torch.F32, torch.CPU, w.Dim(0))
			for _, b := range []*torch.Tensor{nil, bias} {
				low = max(low, lowestRows(w.Dim(1), maxRows, func(x *torch.Tensor) *torch.Tensor { return torch.Linear(x, w, b) }))
			}
		}
	})
	if err != nil {
		return 0, err
	}
	return padFor(low)
}

// padFor is the candidate that covers the least number of rows.
func padFor(low int) (int, error) {
	for _, c := range padCandidates {
		if c >= low {
			return c, nil
		}
	}
	return 0, fmt.Errorf("%w: still with %d rows, and the largest padding tried is %d", ErrNotInvariant, low-1, padCandidates[len(padCandidates)-1])
}

// probed lists one weight per shape: the four matrices of a layer, then the head.
func probed(m *model.Model) []*torch.Tensor {
	var ws []*torch.Tensor
	for half := range 2 {
		for _, l := range m.BlockLeaves(half) {
			if len(l.Parts[0].Shape) == 2 {
				ws = append(ws, l.Tensor)
			}
		}
	}
	return append(ws, m.HeadLeaf().Tensor)
}

// lowestRows is the number of rows from which on no number that was tried gave other bits than the largest with one
// thread. product maps [n, in] to [n, out]. On the engine thread, whose number of threads it leaves as it was.
func lowestRows(in int64, maxRows int, product func(x *torch.Tensor) *torch.Tensor) (low int) {
	const shifts = 3
	most := max(maxRows, 2*padCandidates[len(padCandidates)-1])
	threads := torch.NumThreads()
	defer torch.SetNumThreads(threads)
	torch.InScope(func() {
		x := torch.Randn(1, torch.F32, torch.CPU, int64(most+shifts), in)
		torch.SetNumThreads(1)
		all := product(x).Bytes()
		row := len(all) / (most + shifts)
		for _, t := range []int{1, threads} {
			torch.SetNumThreads(t)
			for _, n := range probeSizes(most) {
				for at := range shifts {
					torch.InScope(func() {
						got := product(x.Narrow(0, int64(at), int64(n))).Bytes()
						if !bytes.Equal(got, all[at*row:(at+n)*row]) {
							low = max(low, n+1)
						}
					})
				}
			}
		}
	})
	return low
}

// probeSizes are numbers of rows around every power of two, where kernels and splits change.
func probeSizes(most int) []int {
	sizes := []int{1}
	for p := 2; p < most; p *= 2 {
		for _, n := range []int{p, p + 1, p + p/2, 2*p - 1} {
			if n > sizes[len(sizes)-1] && n < most {
				sizes = append(sizes, n)
			}
		}
	}
	return append(sizes, most)
}
