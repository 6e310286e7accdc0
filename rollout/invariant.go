package rollout

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

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
			key := fmt.Sprint(w.w.Shape(), w.bias != nil, maxRows, torch.NumThreads())
			if n, ok := probes.Load(key); ok {
				low = max(low, n.(int))
				continue
			}
			n := lowestRows(w.w.Dim(1), maxRows, func(x *torch.Tensor) *torch.Tensor { return torch.Linear(x, w.w, w.bias) })
			probes.Store(key, n)
			low = max(low, n)
		}
	})
	if err != nil {
		return 0, err
	}
	return padFor(low)
}

// probes remembers what lowestRows found: a fact about the processor and the library, not about weights.
var probes sync.Map

// padFor is the candidate that covers the least number of rows.
func padFor(low int) (int, error) {
	for _, c := range padCandidates {
		if c >= low {
			return c, nil
		}
	}
	return 0, fmt.Errorf("%w: still with %d rows, and the largest padding tried is %d", ErrNotInvariant, low-1, padCandidates[len(padCandidates)-1])
}

type product struct{ w, bias *torch.Tensor }

// probed lists one product per shape: the four of a layer, then the head.
func probed(m *model.Model) []product {
	var ps []product
	for half := range 2 {
		leaves := m.BlockLeaves(half)
		for i, l := range leaves {
			if len(l.Parts[0].Shape) != 2 {
				continue
			}
			p := product{w: l.Tensor}
			if i+1 < len(leaves) && strings.HasSuffix(leaves[i+1].Name, "bias") {
				p.bias = leaves[i+1].Tensor
			}
			ps = append(ps, p)
		}
	}
	return append(ps, product{w: m.HeadLeaf().Tensor})
}

// lowestRows is the number of rows from which on no number that was tried gave other bits than the largest with one
// thread. product maps [n, in] to [n, out]. On the engine thread, whose number of threads it leaves as it was.
func lowestRows(in int64, maxRows int, product func(x *torch.Tensor) *torch.Tensor) (low int) {
	const shifts = 2
	most := max(maxRows, 2*padCandidates[len(padCandidates)-1])
	threads := torch.NumThreads()
	defer torch.SetNumThreads(threads)
	torch.InScope(func() {
		x := torch.Randn(1, torch.F32, torch.CPU, int64(most+shifts), in)
		torch.SetNumThreads(1)
		all := product(x).Bytes()
		row := len(all) / (most + shifts)
		for _, t := range slices.Compact([]int{1, 2, max(2, threads)}) { // a later change between one and two is covered
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
