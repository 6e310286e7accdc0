package rollout

import (
	"context"
	"errors"
	"fmt"

	"seadtrain/torch"
)

// Engine generates for many sequences at once. It is used by one goroutine.
type Engine struct {
	// Sets are the allowed sets that constraints name.
	Sets *torch.Sets
	// Forwards and Rows count the work done, until somebody sets them back.
	Forwards, Rows int64

	weights []*Weights
	maxRows int
	step    []*Sequence // finished in this step
}

// NewEngine makes an engine of distinct weights. maxRows bounds the rows of a forward. batchInvariant is an error
// where rows depend on each other.
func NewEngine(sets *torch.Sets, maxRows int, batchInvariant bool, weights ...*Weights) (*Engine, error) {
	if maxRows < 1 || len(weights) == 0 {
		return nil, fmt.Errorf("an engine needs weights and at least one row per step, not %d and %d", len(weights), maxRows)
	}
	if batchInvariant {
		for _, w := range weights {
			if err := checkInvariant(w.Model, maxRows); err != nil {
				return nil, fmt.Errorf("batch-invariant mode, weights %s: %w", w.Name, err)
			}
		}
	}
	return &Engine{Sets: sets, weights: weights, maxRows: maxRows}, nil
}

// CacheBytes is the memory of the caches: what holds something now, and all of it.
func (e *Engine) CacheBytes() (used, all int64) {
	for _, w := range e.weights {
		block := w.Model.CacheBytes()
		all += int64(w.cache.Blocks()) * block
		used += int64(w.cache.Blocks()-w.cache.Free()) * block
	}
	return used, all
}

// Busy reports whether any sequence is generating.
func (e *Engine) Busy() bool {
	for _, w := range e.weights {
		if len(w.active) > 0 {
			return true
		}
	}
	return false
}

// Step runs one forward for every weights that have work and returns the sequences whose generation is over, in a fixed
// order: done, or failed (Err). An error of a sequence touches no other; an error of Step is everybody's.
func (e *Engine) Step(ctx context.Context) ([]*Sequence, error) {
	if err := e.agree(ctx); err != nil {
		return nil, err
	}
	for _, w := range e.weights {
		w.prepare(w.active, e.maxRows)
	}
	if err := e.forward(e.weights...); err != nil {
		return nil, err
	}
	e.step = e.step[:0]
	for _, w := range e.weights {
		e.step = w.collect(e.step)
	}
	return e.step, nil
}

// Prefix computes a common beginning once per version of the weights and holds it in the cache.
func (e *Engine) Prefix(ctx context.Context, w *Weights, ids []int32) error {
	if len(ids) == 0 || w.hasPrefix(ids) {
		return nil
	}
	s, err := w.Open(ids, SequenceOptions{Limit: len(ids) + 1})
	if err != nil {
		return fmt.Errorf("prefix of %d tokens: %w", len(ids), err)
	}
	for s.pending() > 0 {
		if err := e.agree(ctx); err != nil {
			s.Close()
			return err
		}
		w.prepare([]*Sequence{s}, e.maxRows)
		if err := e.forward(w); err != nil {
			s.Close()
			return fmt.Errorf("prefix of %d tokens: %w", len(ids), err)
		}
		s.cached += w.batch.grants[0]
	}
	w.keepPrefix(s)
	return nil
}

// forward runs the prepared batches in one hop to the engine thread.
func (e *Engine) forward(weights ...*Weights) error {
	err := torch.Do(func() {
		for _, w := range weights {
			torch.InScope(func() { w.forward(e.Sets) })
		}
	})
	for _, w := range weights {
		if n := len(w.batch.ids); n > 0 {
			e.Forwards++
			e.Rows += int64(n)
		}
	}
	return err
}

// agree checks for cancellation. Tensor-parallel ranks must stop at the same step, or one of them would wait in a
// collective for ever: any rank's cancellation is everybody's.
func (e *Engine) agree(ctx context.Context) error {
	tp := e.weights[0].Model.TP()
	if tp.Size() == 1 {
		return ctx.Err()
	}
	var stop float64
	if ctx.Err() != nil {
		stop = 1
	}
	err := torch.Do(func() { stop = tp.AllReduceMaxInPlace(torch.Of([]float64{stop})).Item() })
	if err == nil && stop > 0 {
		err = errors.Join(ctx.Err(), context.Canceled)
	}
	return err
}

// collect hands the drawn tokens to their sequences and takes those that are over out of the active ones.
func (w *Weights) collect(over []*Sequence) []*Sequence {
	b := &w.batch
	for i, s := range b.seqs {
		s.cached += b.grants[i]
	}
	before := len(over)
	for i, s := range b.drawing {
		if b.bad != nil && b.bad[i] != nil {
			s.err = b.bad[i]
			over = append(over, s)
		} else if s.accept(b.drawn[i]) {
			over = append(over, s)
		}
	}
	if len(over) > before {
		live := w.active[:0]
		for _, s := range w.active {
			if s.con != nil && s.err == nil {
				live = append(live, s)
			}
		}
		clear(w.active[len(live):])
		w.active = live
	}
	return over
}
