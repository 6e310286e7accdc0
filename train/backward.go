package train

import (
	"fmt"
	"math"

	"seadtrain/model"
	"seadtrain/torch"
)

// Recompute says what a forward keeps for the backward.
type Recompute string

const (
	KeepAll Recompute = "none"  // every half layer's graph: fastest
	Layer   Recompute = "layer" // only the half layers' inputs; their insides are computed again in the backward
)

// Backward computes gradients of a model, micro-batch by micro-batch, into fp32 buffers.
type Backward struct {
	Model     *model.Model
	Sets      *torch.Sets // allowed sets of the samples; nil: none but set 0
	Recompute Recompute
	HeadRows  int // rows of logits alive at once

	Grads []*torch.Tensor // one per leaf, in the order of Model.Leaves
	index map[*model.Leaf]int
}

// NewBackward allocates zeroed gradients and marks the weights as trainable.
func NewBackward(m *model.Model, sets *torch.Sets, r Recompute, headRows int) (*Backward, error) {
	if headRows <= 0 {
		headRows = 1024
	}
	b := &Backward{Model: m, Sets: sets, Recompute: r, HeadRows: headRows, index: map[*model.Leaf]int{}}
	err := torch.Do(func() {
		for i, l := range m.Leaves() {
			b.index[l] = i
			l.Tensor.RequireGrad(true)
			b.Grads = append(b.Grads, torch.Zeros(torch.F32, m.Device, l.Tensor.Shape()...).Keep())
		}
	})
	return b, err
}

// Close frees the gradients.
func (b *Backward) Close() {
	for _, g := range b.Grads {
		g.Free()
	}
}

// Zero forgets the gradients.
func (b *Backward) Zero() {
	for _, g := range b.Grads {
		g.ZeroInPlace()
	}
}

// Coefficients is a loss seen from the head: for rows from, from+1, … of the batch, given their statistics under the
// current weights, the derivative of the loss by log π(token) and by the entropy.
type Coefficients func(from int, rows []torch.Stats) (dLogProb, dEntropy []float64, err error)

// Accumulate runs one micro-batch forward and backward and adds its gradients. Inside torch.Do.
func (b *Backward) Accumulate(batch *Batch, loss Coefficients) error {
	var err error
	torch.InScope(func() { err = b.accumulate(batch, loss) })
	return err
}

func (b *Backward) accumulate(batch *Batch, loss Coefficients) error {
	m := b.Model
	ids, pos, rows := m.Index(batch.IDs), m.Index(batch.Pos), m.Index(batch.Rows)
	att := model.Packed{Cu: batch.Cu}
	halves := make([]half, m.Blocks())
	x := m.Embed(ids)
	for i := range halves {
		halves[i] = b.forward(i, x, pos, att)
		x = m.Reduce(x, halves[i].out)
		if b.Recompute == Layer {
			halves[i].out.Free()
			halves[i].out = nil
		}
	}
	dx, err := b.head(batch, x, rows, loss)
	if err != nil {
		return err
	}
	for i := len(halves) - 1; i >= 0; i-- {
		dx = torch.Scoped(func() *torch.Tensor { return b.backward(i, &halves[i], dx, pos, att) })
	}
	m.EmbedBackward(ids, dx, b.grad(m.EmbedLeaf()))
	return nil
}

// half is what the forward keeps of a half layer.
type half struct {
	in  *torch.Tensor // its input, the leaf of its graph
	out *torch.Tensor // its output with the graph behind it
}

func (b *Backward) forward(i int, x, pos *torch.Tensor, att model.Attention) half {
	h := half{in: x.Detach()}
	run := func() {
		h.out = torch.Scoped(func() *torch.Tensor { return b.Model.Block(i, h.in, pos, att) })
	}
	if b.Recompute == Layer {
		run()
		return h
	}
	h.in.RequireGrad(true)
	torch.WithGrad(run)
	return h
}

// backward takes dx, the gradient after the half layer's residual sum, to the gradient before it.
func (b *Backward) backward(i int, h *half, dx, pos *torch.Tensor, att model.Attention) *torch.Tensor {
	m := b.Model
	out := h.out
	if out == nil {
		h.in.RequireGrad(true)
		torch.WithGrad(func() {
			out = torch.Scoped(func() *torch.Tensor { return m.Block(i, h.in, pos, att) })
		})
	}
	leaves := m.BlockLeaves(i)
	ins := []*torch.Tensor{h.in}
	for _, l := range leaves {
		ins = append(ins, l.Tensor)
	}
	grads := torch.Grad([]*torch.Tensor{out}, []*torch.Tensor{dx}, ins)
	for k, l := range leaves {
		b.add(l, grads[k+1], true)
	}
	out.Free() // the graph goes now, not at the end of the micro-batch
	return dx.Add(m.TP().AllReduceInPlace(grads[0]))
}

// add accumulates one weight's gradient. Replicated weights inside a half layer see only this rank's share of the work:
// partial asks for the sum over ranks.
func (b *Backward) add(l *model.Leaf, g *torch.Tensor, partial bool) {
	if partial && l.Shard == model.Replicated && b.Model.TP().Size() > 1 {
		if g == nil { // a bias that only rank 0 adds
			g = torch.Zeros(b.Model.DType, b.Model.Device, l.Tensor.Shape()...)
		}
		g = b.Model.TP().AllReduceInPlace(g.Contiguous())
	}
	if g != nil {
		b.grad(l).AddInPlace(g, 1)
	}
}

func (b *Backward) grad(l *model.Leaf) *torch.Tensor { return b.Grads[b.index[l]] }

// head runs norm, logits and loss on the rows that matter, chunk by chunk, and returns dx [n, c].
func (b *Backward) head(batch *Batch, x, rows *torch.Tensor, loss Coefficients) (*torch.Tensor, error) {
	m := b.Model
	in := x.Detach().IndexSelect(0, rows).RequireGrad(true)
	var h *torch.Tensor
	torch.WithGrad(func() { h = m.FinalNorm(in) })
	flat := h.Detach()
	dh := torch.Empty(h.DType(), h.Device(), h.Shape()...)
	var err error
	for from := 0; from < len(batch.Rows) && err == nil; from += b.HeadRows {
		to := min(from+b.HeadRows, len(batch.Rows))
		torch.InScope(func() {
			hc := flat.Narrow(0, int64(from), int64(to-from))
			err = b.headChunk(batch, from, to, hc, dh.Narrow(0, int64(from), int64(to-from)), loss)
		})
	}
	if err != nil {
		return nil, err
	}
	m.TP().AllReduceInPlace(dh)
	g := torch.Grad([]*torch.Tensor{h}, []*torch.Tensor{dh}, []*torch.Tensor{in, m.NormLeaf().Tensor})
	b.add(m.NormLeaf(), g[1], false)
	return torch.Zeros(x.DType(), x.Device(), x.Shape()...).IndexAddInPlace(0, rows, g[0]), nil
}

func (b *Backward) headChunk(batch *Batch, from, to int, h, dh *torch.Tensor, loss Coefficients) error {
	m, t := b.Model, part(batch.Targets, from, to)
	w := m.HeadLeaf().Tensor.Detach()
	logits := m.LocalLogits(h).Detach().To(torch.F32, m.Device)
	stats := merge(m.TP(), torch.LogitStats(logits, m.VocabOffset(), t, b.Sets))
	dlp, dent, err := loss(from, stats)
	if err != nil {
		return err
	}
	torch.LogitGradInPlace(logits, m.VocabOffset(), t, b.Sets, stats, dlp, dent)
	d := logits.To(m.DType, m.Device)
	dh.CopyInPlace(d.Matmul(w))
	grad := b.grad(m.HeadLeaf())
	if m.DType == torch.F32 {
		torch.MatmulInto(grad, 1, d, true, h, false)
	} else {
		grad.AddInPlace(d.Transpose(0, 1).Matmul(h), 1)
	}
	return nil
}

// merge joins the statistics of a vocabulary that is split over ranks.
func merge(tp *torch.Comm, own []torch.Stats) []torch.Stats {
	if tp.Size() == 1 {
		return own
	}
	flat := make([]float64, 0, 4*len(own))
	for _, s := range own {
		flat = append(flat, s.Max, s.Sum, s.Weighted, s.Target)
	}
	out := make([]torch.Stats, len(own))
	for r, v := range tp.GatherFloats(flat) {
		for i := range out {
			s := torch.Stats{Max: v[4*i], Sum: v[4*i+1], Weighted: v[4*i+2], Target: v[4*i+3]}
			if r > 0 {
				s = out[i].Merge(s)
			}
			out[i] = s
		}
	}
	return out
}

// Score gives the statistics of a batch's rows under a model, without gradients: the reference's log-probs.
// Inside torch.Do.
func Score(m *model.Model, sets *torch.Sets, headRows int, batch *Batch) []torch.Stats {
	out := make([]torch.Stats, 0, len(batch.Rows))
	torch.InScope(func() {
		x := m.Hidden(batch.IDs, batch.Pos, model.Packed{Cu: batch.Cu})
		h := x.IndexSelect(0, m.Index(batch.Rows))
		for from := 0; from < len(batch.Rows); from += headRows {
			to := min(from+headRows, len(batch.Rows))
			torch.InScope(func() {
				l := m.LocalLogits(h.Narrow(0, int64(from), int64(to-from))).To(torch.F32, m.Device)
				out = append(out, merge(m.TP(), torch.LogitStats(l, m.VocabOffset(), part(batch.Targets, from, to), sets))...)
			})
		}
	})
	return out
}

// finite names the dialogue and token of the first row whose log-prob or entropy is not a number.
func (b *Batch) finite(from int, rows []torch.Stats) error {
	for i, s := range rows {
		lp, h := s.LogProb(), s.Entropy()
		if math.IsNaN(lp+h) || math.IsInf(lp+h, 0) {
			j := from + i
			return fmt.Errorf("dialogue %s, token %d: its log-prob is %v and the entropy %v", b.Samples[b.Sample[j]].ID, b.Token[j], lp, h)
		}
	}
	return nil
}
