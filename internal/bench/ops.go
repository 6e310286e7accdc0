package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"seadtrain/model"
	"seadtrain/torch"
)

// opsTasks measure the limits, single kernels at the shapes of decoding and prefill, and the parts of a forward.
func (b *bench) opsTasks() []task {
	limits := task{names: []string{"bandwidth", "gemm"}, share: 10, run: func(ctx context.Context, limit time.Duration) ([]Row, error) {
		rates, err := alternate(ctx, limit, b.bandwidth, b.gemm)
		if err != nil {
			return nil, err
		}
		return []Row{
			plain("bandwidth", fmt.Sprintf("reading a buffer of %d MiB", b.Sizes.Stream>>20), "GB/s", slices.Max(rates[0])),
			plain("gemm", "matrix product of 1024 × 2048 × 2048", "GFLOP/s", slices.Max(rates[1])),
		}, nil
	}}
	all := []task{limits}
	for _, rows := range []int{b.Sizes.Batches[0], b.Sizes.largest()} {
		all = append(all, task{names: []string{fmt.Sprintf("linear%d", rows)}, share: 10, run: b.linear(rows)})
	}
	for _, batch := range b.Sizes.Batches {
		all = append(all, task{names: []string{fmt.Sprintf("profile%d", batch)}, share: 15, run: b.profile(batch)})
	}
	return all
}

// plain is a row that is compared with nothing.
func plain(name, work, unit string, value float64) Row {
	return Row{Name: name, Work: work, Unit: unit, Value: Number(value), PeerValue: Unknown, Ratio: Unknown, RatioLow: Unknown, RatioHigh: Unknown, Alternations: 1}
}

// linear measures all matrix products of a step, one after another, so that their weights come from memory.
func (b *bench) linear(rows int) func(context.Context, time.Duration) ([]Row, error) {
	return func(ctx context.Context, limit time.Duration) ([]Row, error) {
		m, flops := b.engine.Model, 0.0
		rates, err := alternate(ctx, limit, func(context.Context) (rate float64, err error) {
			err = torch.Do(func() {
				inputs := map[int64]*torch.Tensor{}
				var weights []*model.Leaf
				flops = 0
				for _, leaf := range m.Leaves() {
					if leaf.Matrix() && leaf != m.EmbedLeaf() {
						weights = append(weights, leaf)
						flops += 2 * float64(rows) * float64(leaf.Tensor.Numel())
						in := leaf.Tensor.Dim(1)
						inputs[in] = torch.Randn(1, m.DType, m.Device, int64(rows), in)
					}
				}
				rate = float64(weightBytes(m)) / 1e9 / fastest(3, func() {
					for _, w := range weights {
						torch.InScope(func() { w.Linear(inputs[w.Tensor.Dim(1)], nil) })
					}
				})
			})
			return rate, err
		}, b.bandwidth)
		if err != nil {
			return nil, err
		}
		row := Row{Name: fmt.Sprintf("linear%d", rows), Unit: "GB/s", Peer: "memory bandwidth", Work: fmt.Sprintf("all matrix products of a step of %d rows", rows),
			Notes: []string{fmt.Sprintf("%.4g GFLOP/s", flops/float64(weightBytes(m))*slices.Max(rates[0]))}}
		return []Row{row.against(rates[0], rates[1])}, nil
	}
}

// parts of a forward, in order.
var parts = []string{"embedding", "attention over the cache", "rest of the attention blocks", "MLP blocks", "residuals and norms", "head", "sampling"}

// profile runs decode steps as the engine does, part by part with a clock between them: what a part's calls take, and so
// their shares, which sum to the whole.
func (b *bench) profile(batch int) func(context.Context, time.Duration) ([]Row, error) {
	return func(ctx context.Context, limit time.Duration) (out []Row, err error) {
		m := b.engine.Model
		rows, blocks := decodeRows(batch, b.Sizes.Context)
		cache, err := model.NewCache(m, blocks)
		if err != nil {
			return nil, err
		}
		defer func() { _ = torch.Do(cache.Close) }()
		var least []float64 // of every part
		_, err = alternate(ctx, limit, func(context.Context) (float64, error) {
			spent := make([]float64, len(parts))
			if err := torch.Do(func() { timedStep(m, cache.View(rows), rows, b.engine.sets, spent) }); err != nil {
				return 0, err
			}
			if least == nil {
				least = spent
			}
			for i := range least {
				least[i] = min(least[i], spent[i])
			}
			return 0, nil
		})
		if err != nil {
			return nil, err
		}
		total := 0.0
		for _, s := range least {
			total += s
		}
		work := fmt.Sprintf("decode step of %d sequences at %d tokens", batch, b.Sizes.Context)
		out = append(out, plain(fmt.Sprintf("profile%d", batch), work, "ms", 1000*total))
		for i, name := range parts {
			out = append(out, plain(fmt.Sprintf("profile%d: %s", batch, name), "", "%", 100*least[i]/total))
		}
		return out, nil
	}
}

// clocked adds the time of attention to a sum.
type clocked struct {
	model.Attention
	spent *float64
}

func (c clocked) Attend(layer int, q, k, v *torch.Tensor, rot model.Rotation, scale float64) *torch.Tensor {
	defer clock(c.spent)()
	return c.Attention.Attend(layer, q, k, v, rot, scale)
}

// clock adds the seconds until the returned function is called.
func clock(spent *float64) func() {
	began := time.Now()
	return func() { *spent += time.Since(began).Seconds() }
}

// timedStep is model.Hidden, the head and sampling with clocks. On the engine thread.
func timedStep(m *model.Model, att model.Attention, rows *torch.Rows, sets *torch.Sets, spent []float64) {
	const embed, attention, rest, mlp, norm, head, draw = 0, 1, 2, 3, 4, 5, 6
	stop := clock(&spent[embed])
	id, pos := m.Index(make([]int32, len(rows.Pos))), m.Index(rows.Pos)
	x := m.Embed(id)
	stop()
	timed := clocked{att, &spent[attention]}
	stop = clock(&spent[norm])
	y := m.FirstNorm(x)
	stop()
	for i := range m.Blocks() {
		y = torch.Scoped(func() *torch.Tensor {
			of := rest
			if i%2 == 1 {
				of = mlp
			}
			stop := clock(&spent[of])
			z := m.Inner(i, y, pos, timed)
			stop()
			defer clock(&spent[norm])()
			return m.AddNorm(i, x, z)
		})
	}
	spent[rest] -= spent[attention] // which was counted inside it
	stop = clock(&spent[head])
	logits := m.Logits(y)
	stop()
	defer clock(&spent[draw])()
	rng := rand.New(rand.NewPCG(1, 1))
	draws := make([]torch.Draw, len(rows.Pos))
	for i := range draws {
		draws[i] = torch.Draw{Temperature: 1, TopP: 1, U: rng.Float64()}
	}
	torch.Sample(logits, draws, sets)
}
