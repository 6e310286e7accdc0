package bench

import (
	"context"
	"fmt"
	"time"

	"seadtrain/model"
)

// ownPrefill measures the prefill of one prompt against the largest matrix product that the machine does as fast.
func (b *bench) ownPrefill() task {
	return task{names: []string{"prefill_of_gemm"}, share: 20, run: func(ctx context.Context, limit time.Duration) ([]Row, error) {
		prompts := b.text.Prompts(1, b.Sizes.Context)
		work := flops(b.engine.Model, b.Sizes.Context)
		best := 0.0
		defer b.engine.drop()
		rates, err := alternate(ctx, limit, func(ctx context.Context) (float64, error) {
			took, err := b.engine.Prompts(ctx, prompts, 1)
			best = max(best, took.Rate())
			return work / took.Seconds / 1e9, err
		}, b.gemm)
		if err != nil {
			return nil, err
		}
		row := Row{Name: "prefill_of_gemm", Unit: "GFLOP/s", Peer: "GEMM limit", Work: b.prefillWork(),
			Notes: []string{fmt.Sprintf("%.4g tokens/s", best), "operations of the layers' matrix products and of attention, without the head"}}
		return []Row{row.against(rates[0], rates[1])}, nil
	}}
}

func (b *bench) prefillWork() string { return fmt.Sprintf("prefill of %d tokens", b.Sizes.Context) }

// flops of a prefill of n tokens: 2 for every weight of a layer's matrices and token, and 4·d for every head, token and
// earlier token.
func flops(m *model.Model, n int) float64 {
	c := m.Config
	weights := 0.0
	for i := range m.Blocks() {
		for _, l := range m.BlockLeaves(i) {
			if l.Matrix() {
				weights += float64(l.Tensor.Numel())
			}
		}
	}
	pairs := float64(n) * float64(n+1) / 2
	return 2*weights*float64(n) + 4*float64(c.NumHiddenLayers*c.NumAttentionHeads*c.HeadDim)*pairs
}

func (b *bench) prefillAgainst(name string) []task {
	if b.Suite == "all" && !peerKinds[name].prefill {
		return nil
	}
	row := "prefill_vs_" + peerKinds[name].suffix
	return []task{{names: []string{row}, peer: name, share: 30, run: func(ctx context.Context, limit time.Duration) ([]Row, error) {
		defer b.engine.drop()
		var sides []func(context.Context) (float64, error)
		for _, s := range []Side{b.engine, b.peers.now} {
			turn := 0
			sides = append(sides, func(ctx context.Context) (float64, error) {
				turn++ // another prompt each time: a peer may remember prompts
				return rate(s.Prompts(ctx, [][]int32{b.text.cut(turn*41, b.Sizes.Context)}, 1))
			})
		}
		rates, err := alternate(ctx, limit, sides...)
		if err != nil {
			return nil, err
		}
		r := Row{Name: row, Unit: "tokens/s", Peer: b.peers.now.Name, Work: b.prefillWork(), Notes: b.peers.now.Notes}
		return []Row{r.against(rates[0], rates[1])}, nil
	}}}
}
