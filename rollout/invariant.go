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

// ErrNotInvariant says that the rows of a matrix product are not independent on this processor.
var ErrNotInvariant = errors.New("rows of a matrix product depend on their number")

// checkInvariant makes sure that the bits of a product's row depend neither on the number of rows (up to maxRows), nor on
// the row's place, nor on the number of threads, for every weight shape of the model. The kernels around the products work
// row by row and need no probe.
func checkInvariant(m *model.Model, maxRows int) (err error) {
	if m.DType != torch.F32 || m.Device != torch.CPU {
		return fmt.Errorf("it is for F32 activations on the CPU only, not %v on %v", m.DType, m.Device)
	}
	broken := 0
	err = torch.Do(func() {
		for _, w := range probed(m) {
			key := fmt.Sprint(w.w.Tensor.DType(), w.w.Tensor.Shape(), w.bias != nil, maxRows, torch.NumThreads())
			n, ok := probes.Load(key)
			if !ok {
				n = dependentRows(w.w.Tensor.Dim(1), maxRows, func(x *torch.Tensor) *torch.Tensor { return w.w.Linear(x, w.bias) })
				probes.Store(key, n)
			}
			broken = max(broken, n.(int))
		}
	})
	if err == nil && broken > 0 {
		err = fmt.Errorf("%w: found with %d rows", ErrNotInvariant, broken)
	}
	return err
}

// probes remembers what dependentRows found: a fact about the processor and the library, not about weights.
var probes sync.Map

type product struct{ w, bias *model.Leaf }

// probed lists one product per shape: the four of a layer, then the head.
func probed(m *model.Model) []product {
	var ps []product
	for half := range 2 {
		leaves := m.BlockLeaves(half)
		for i, l := range leaves {
			if !l.Matrix() {
				continue
			}
			p := product{w: l}
			if i+1 < len(leaves) && strings.HasSuffix(leaves[i+1].Name, "bias") {
				p.bias = leaves[i+1]
			}
			ps = append(ps, p)
		}
	}
	return append(ps, product{w: m.HeadLeaf()})
}

// dependentRows is the largest number of rows tried that gave other bits than the most with one thread; 0: none. product
// maps [n, in] to [n, out]. On the engine thread, whose number of threads it leaves as it was.
func dependentRows(in int64, most int, product func(x *torch.Tensor) *torch.Tensor) (found int) {
	const shifts = 2
	threads := torch.NumThreads()
	defer torch.SetNumThreads(threads)
	torch.InScope(func() {
		x := torch.Randn(1, torch.F32, torch.CPU, int64(most), in)
		torch.SetNumThreads(1)
		all := product(x).Bytes()
		row := len(all) / most
		for _, t := range slices.Compact([]int{1, 2, max(2, threads)}) { // a later change between one and two is covered
			torch.SetNumThreads(t)
			for _, n := range probeSizes(most) {
				for at := range min(shifts, most-n+1) {
					torch.InScope(func() {
						got := product(x.Narrow(0, int64(at), int64(n))).Bytes()
						if !bytes.Equal(got, all[at*row:(at+n)*row]) {
							found = max(found, n)
						}
					})
				}
			}
		}
	})
	return found
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
