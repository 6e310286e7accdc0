package rollout

import (
	"slices"

	"seadtrain/torch"
)

// Sequences of one prompt, as the users of a group, need its keys and values once: the first that generates computes them,
// the others wait for it and borrow its full blocks. Who is first follows from the order in which they began.

// waits reports whether another sequence is computing what s needs. What is there already s borrows now.
func (w *Weights) waits(s *Sequence) bool {
	key := s.options.Prompt
	if key == 0 || s.cached >= s.common {
		return false
	}
	for _, l := range w.lenders[key] {
		switch {
		case l == s:
			return false
		case l.common != s.common || !slices.Equal(l.Trace.Tokens[:s.common], s.Trace.Tokens[:s.common]):
		case l.cached >= l.common:
			s.borrow(l)
			w.lenders[key] = append(w.lenders[key], s)
			return false
		case l.con != nil && l.err == nil:
			return true
		}
	}
	if w.lenders == nil {
		w.lenders = map[int][]*Sequence{}
	}
	w.lenders[key] = append(w.lenders[key], s)
	return false
}

// borrow takes the prompt's full blocks from a sequence that has computed them.
func (s *Sequence) borrow(l *Sequence) {
	for i := s.cached / torch.BlockSize; i < s.common/torch.BlockSize; i++ {
		b := l.blocks[i]
		s.w.cache.Retain(b)
		if i < len(s.blocks) { // half-full, a copy of a prefix's
			s.drop(s.blocks[i])
			s.blocks[i] = b
			continue
		}
		s.blocks = append(s.blocks, b)
		s.promised--
		s.w.reserved--
	}
	s.cached = s.common
}

// lendsNoMore forgets a sequence that closes.
func (w *Weights) lendsNoMore(s *Sequence) {
	key := s.options.Prompt
	left := slices.DeleteFunc(w.lenders[key], func(l *Sequence) bool { return l == s })
	if len(left) > 0 {
		w.lenders[key] = left
	} else {
		delete(w.lenders, key)
	}
}
