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
func invariantRows(m *model.Model, maxRows int) (int, error) {
	if m.DType != torch.F32 || m.Device != torch.CPU {
		return 0, fmt.Errorf("it is for F32 on the CPU only, not %v on %v", m.DType, m.Device)
	}
	threads := torch.NumThreads()
	defer torch.SetNumThreads(threads)
	worst := 0
	for i, w := range probed(m) {
		low, err := lowestRows(w, i < 4, maxRows, threads)
		if err != nil {
			return 0, err
		}
		worst = max(worst, low)
	}
	for _, c := range padCandidates {
		if c >= worst {
			return c, nil
		}
	}
	return 0, fmt.Errorf("%w: with %d rows, the largest padding tried is %d", ErrNotInvariant, worst-1, padCandidates[len(padCandidates)-1])
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

// lowestRows is the number of rows from which on no tried number gave other bits than maxRows rows with one thread.
func lowestRows(w *torch.Tensor, bias bool, maxRows, threads int) (low int, err error) {
	err = torch.Do(func() {
		most := max(maxRows, 2*padCandidates[len(padCandidates)-1]) + 3
		out, in := w.Dim(0), w.Dim(1)
		x := torch.Randn(1, torch.F32, torch.CPU, int64(most), in)
		var b *torch.Tensor
		if bias {
			b = torch.Randn(2, torch.F32, torch.CPU, out)
		}
		torch.SetNumThreads(1)
		want := torch.Linear(x, w, b)
		row := int(out) * want.DType().Size()
		for _, t := range []int{1, threads} {
			torch.SetNumThreads(t)
			for _, n := range probeSizes(most - 3) {
				for _, at := range []int{0, 1, 3} {
					torch.InScope(func() {
						got := torch.Linear(x.Narrow(0, int64(at), int64(n)), w, b)
						if !bytes.Equal(got.Bytes(), want.Bytes()[at*row:(at+n)*row]) {
							low = max(low, n+1)
						}
					})
				}
			}
		}
	})
	return low, err
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
