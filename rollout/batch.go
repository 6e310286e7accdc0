package rollout

import "seadtrain/torch"

// batch is one packed forward of some weights. Its buffers are used again in every step.
type batch struct {
	seqs    []*Sequence // [sequences]
	grants  []int       // [sequences] rows of each
	pending []int       // [sequences] scratch of plan
	ids     []int32     // [n] tokens
	rows    torch.Rows  // [n] where they stand in the cache
	last    []int32     // [m] rows whose logits are needed
	drawing []*Sequence // [m] whose they are
	draws   []torch.Draw
	drawn   []torch.Drawn
	bad     []error // per draw; nil: all are well
}

// prepare fills the batch of the next step: at most limit rows of these sequences.
func (w *Weights) prepare(seqs []*Sequence, limit int) {
	b := &w.batch
	b.seqs, b.pending = append(b.seqs[:0], seqs...), b.pending[:0]
	for _, s := range seqs {
		n := 0
		if !w.waits(s) {
			n = s.pending()
		}
		b.pending = append(b.pending, n)
	}
	b.grants = plan(b.grants, b.pending, limit)
	b.ids, b.last, b.drawing, b.draws, b.drawn, b.bad = b.ids[:0], b.last[:0], b.drawing[:0], b.draws[:0], nil, nil
	r := &b.rows
	r.Seq, r.Pos, r.Table, r.Width = r.Seq[:0], r.Pos[:0], r.Table[:0], 1
	for i, s := range seqs {
		if b.grants[i] > 0 {
			s.grow(b.grants[i])
		}
		r.Width = max(r.Width, len(s.blocks))
	}
	for i, s := range seqs {
		b.table(s.blocks)
		for k := range b.grants[i] {
			b.ids = append(b.ids, s.Trace.Tokens[s.cached+k])
			r.Seq, r.Pos = append(r.Seq, int32(i)), append(r.Pos, int32(s.cached+k))
		}
		if s.con != nil && b.grants[i] == s.pending() {
			b.last = append(b.last, int32(len(b.ids)-1))
			b.drawing = append(b.drawing, s)
			b.draws = append(b.draws, s.options.Sampling.draw(s.set, s.options.Rand.Float64()))
		}
	}
}

// table adds a sequence's row to the block table.
func (b *batch) table(blocks []int32) {
	b.rows.Table = append(b.rows.Table, blocks...)
	for range b.rows.Width - len(blocks) {
		b.rows.Table = append(b.rows.Table, -1)
	}
}

// forward runs the batch. On the engine thread.
func (w *Weights) forward(sets *torch.Sets) {
	b := &w.batch
	for _, c := range w.copies {
		w.cache.CopyBlock(c[0], c[1])
	}
	w.copies = w.copies[:0]
	if len(b.ids) == 0 {
		return
	}
	h := w.Model.Hidden(b.ids, b.rows.Pos, w.cache.View(&b.rows))
	if len(b.draws) == 0 {
		return
	}
	logits := w.Model.Logits(h.IndexSelect(0, w.Model.Index(b.last))).To(torch.F32, torch.CPU)
	// Under tensor parallelism every rank has the same gathered logits and streams, so all draw the same.
	b.drawn, b.bad = torch.SampleRows(logits, b.draws, sets)
}
