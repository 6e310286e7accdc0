package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"seadtrain/model"
	"seadtrain/torch"
)

// ownDecode measures decoding against the memory's bandwidth: the weights are read once for every step.
func (b *bench) ownDecode() task {
	var names []string
	for _, batch := range b.Sizes.Batches {
		names = append(names, fmt.Sprintf("decode%d_of_bandwidth", batch))
	}
	return task{names: names, share: 150, run: func(ctx context.Context, limit time.Duration) (out []Row, err error) {
		all, err := b.decode(ctx, limit, b.Sizes.largest(), []Side{b.engine}, b.bandwidth)
		if err != nil {
			return nil, err
		}
		for i, rates := range all {
			batch, bytes := b.Sizes.Batches[i], make([]float64, len(rates[0]))
			for k, r := range rates[0] {
				bytes[k] = r / float64(batch) * float64(weightBytes(b.engine.Model)) / 1e9
			}
			row := Row{Name: names[i], Unit: "GB/s", Peer: "memory bandwidth", Work: b.decodeWork(batch),
				Notes: []string{fmt.Sprintf("%.4g tokens/s", slices.Max(rates[0])), "bytes of weights alone"}}
			out = append(out, row.against(bytes, rates[1]))
		}
		return out, nil
	}}
}

// decode measures the sides in every batch up to most: rates by batch, side and alternation. All hold the prompts of the
// largest batch. others take their turn behind them.
func (b *bench) decode(ctx context.Context, limit time.Duration, most int, sides []Side, others ...func(context.Context) (float64, error)) (out [][][]float64, err error) {
	prompts := b.text.Prompts(most, b.Sizes.Context)
	began := time.Now()
	for _, s := range sides {
		if own, ok := s.(*Engine); ok {
			err = own.hold(ctx, prompts, b.Sizes.Tokens)
		} else {
			_, err = s.Prompts(ctx, prompts, b.Sizes.Tokens)
		}
		if err != nil {
			return nil, err
		}
	}
	limit -= time.Since(began)
	for i, batch := range b.Sizes.Batches {
		if batch > most {
			break
		}
		var runs []func(context.Context) (float64, error)
		for _, s := range sides {
			runs = append(runs, func(ctx context.Context) (float64, error) { return rate(s.Decode(ctx, batch, b.Sizes.Tokens)) })
		}
		rates, err := alternate(ctx, limit/time.Duration(len(b.Sizes.Batches)-i), append(runs, others...)...)
		if err != nil {
			return nil, err
		}
		out = append(out, rates)
	}
	return out, nil
}

func (b *bench) decodeWork(batch int) string {
	return fmt.Sprintf("%d × %d tokens after %d of context", batch, b.Sizes.Tokens, b.Sizes.Context)
}

func rate(t Took, err error) (float64, error) { return t.Rate(), err }

// weightBytes is what a decode step of a twin reads: every weight but the embedding, which is not the head.
func weightBytes(m *model.Model) (n int64) {
	for _, l := range m.Leaves() {
		if l != m.EmbedLeaf() {
			n += l.Bytes()
		}
	}
	return n
}

func (b *bench) attentionTask() task {
	return task{names: []string{fmt.Sprintf("decode%d_attention", b.Sizes.largest())}, share: 20, run: b.attention}
}

// attention measures the cache's part of a decode step alone, through all layers, so that no cache of the processor holds
// what was read before: the bytes of keys and values that must be read, against the memory's bandwidth.
func (b *bench) attention(ctx context.Context, limit time.Duration) ([]Row, error) {
	m, batch, length := b.engine.Model, b.Sizes.largest(), b.Sizes.Attention
	b.engine.drop()
	layers := m.Config.NumHiddenLayers
	rows, blocks := decodeRows(batch, length)
	cache, err := model.NewCache(m, blocks)
	if err != nil {
		return nil, err
	}
	defer func() { _ = torch.Do(cache.Close) }()
	perToken := float64(m.CacheBytes()) / torch.BlockSize
	rates, err := alternate(ctx, limit, func(context.Context) (bytes float64, err error) {
		err = torch.Do(func() {
			c := m.Config
			q := torch.Randn(1, m.DType, m.Device, int64(batch), int64(c.NumAttentionHeads), int64(c.HeadDim))
			k := torch.Randn(2, m.DType, m.Device, int64(batch), int64(c.NumKeyValueHeads), int64(c.HeadDim))
			view := cache.View(rows)
			table := torch.Full(.7, torch.F32, m.Device, int64(length), int64(c.HeadDim/2)) // about a turn by 45°
			still := model.Rotation{Rotary: torch.Rotary{Cos: table, Sin: table}}
			bytes = perToken * float64(batch*length) / fastest(3, func() {
				for i := range layers {
					torch.InScope(func() { view.Attend(i, q, k, k, still, .125) })
				}
			})
		})
		return bytes / 1e9, err
	}, b.bandwidth)
	if err != nil {
		return nil, err
	}
	row := Row{Name: fmt.Sprintf("decode%d_attention", batch), Unit: "GB/s", Peer: "memory bandwidth",
		Work: fmt.Sprintf("attention of a decode step, %d sequences of %d tokens, %d layers", batch, length, layers)}
	return []Row{row.against(rates[0], rates[1])}, nil
}

// decodeRows is a step of so many sequences of one length, and the number of blocks it needs. Nothing is shared.
func decodeRows(batch, length int) (*torch.Rows, int) {
	r := &torch.Rows{Width: blocksFor(length)}
	for i := range batch {
		r.Seq, r.Pos = append(r.Seq, int32(i)), append(r.Pos, int32(length-1))
		for k := range r.Width {
			r.Table = append(r.Table, int32(i*r.Width+k))
		}
	}
	return r, batch * r.Width
}

// decodeAgainst compares decoding in the batches that a peer is measured at.
func (b *bench) decodeAgainst(name string) []task {
	kind, most := peerKinds[name], 0
	var names []string
	for _, batch := range b.Sizes.Batches {
		if batch <= kind.decodes || b.Suite == "decode" && kind.decodes == 0 {
			names = append(names, fmt.Sprintf("decode%d_vs_%s", batch, kind.suffix))
			most = batch
		}
	}
	if most == 0 {
		return nil
	}
	return []task{{names: names, peer: name, share: 80 + 3*float64(most), run: func(ctx context.Context, limit time.Duration) (out []Row, err error) {
		all, err := b.decode(ctx, limit, most, []Side{b.engine, b.peers.now})
		if err != nil {
			return nil, err
		}
		for i, rates := range all {
			r := Row{Name: names[i], Unit: "tokens/s", Peer: b.peers.now.Name, Work: b.decodeWork(b.Sizes.Batches[i]), Notes: b.peers.now.Notes}
			out = append(out, r.against(rates[0], rates[1]))
		}
		return out, nil
	}}}
}
