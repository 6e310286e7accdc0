package rollout

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"seadtrain/dialogue"
	"seadtrain/torch"
)

// ErrContextFull is a sequence's error when a token would go beyond its limit.
var ErrContextFull = errors.New("context is full")

// SequenceOptions say how a sequence generates.
type SequenceOptions struct {
	Limit    int        // most tokens it may hold; 0 is refused
	Sampling Sampling   // of every token it draws
	Rand     *rand.Rand // its own stream: one number per sampled token
	Prompt   int        // sequences of one number have one prompt, which is computed once. 0: nobody else has it
}

// Sequence is one growing list of tokens with its keys and values in a cache. It is used by one goroutine, the engine's.
type Sequence struct {
	// Trace is what was given and sampled so far. Tokens are only ever appended.
	Trace dialogue.Trace
	// Kept sums the mass that the truncations kept over the Sampled tokens.
	Kept    float64
	Sampled int

	w        *Weights
	options  SequenceOptions
	cached   int     // tokens whose keys and values are in the cache
	common   int     // tokens in the full blocks of the prompt, but for its last one: what others of its number may share
	blocks   []int32 // of the cache, in order
	promised int     // blocks that may still be taken, see Weights.reserved
	con      Constraint
	set      int32 // allowed set of the next token
	start    int   // first token of the present or last generation
	err      error
}

// Err is what ended the sequence before its time; nil while all is well.
func (s *Sequence) Err() error { return s.err }

// Generated are the tokens of the last generation, forced ones included.
func (s *Sequence) Generated() []int32 { return s.Trace.Tokens[s.start:] }

// sampledNow is the number of tokens that the last generation sampled.
func (s *Sequence) sampledNow() (n int) {
	for _, loss := range s.Trace.Loss[s.start:] {
		if loss {
			n++
		}
	}
	return n
}

// Room is the number of tokens that may still be appended.
func (s *Sequence) Room() int { return s.options.Limit - len(s.Trace.Tokens) }

// Append adds given tokens: they are read, not trained.
func (s *Sequence) Append(ids ...int32) error {
	if len(ids) > s.Room() {
		return fmt.Errorf("%d tokens and %d more, %d allowed: %w", len(s.Trace.Tokens), len(ids), s.options.Limit, ErrContextFull)
	}
	for _, id := range ids {
		s.push(id, false, 0, 0)
	}
	return nil
}

// Generate begins a generation: from now on the sequence takes part in Engine.Step, until the constraint is done.
func (s *Sequence) Generate(c Constraint) error {
	if s.err != nil || s.con != nil {
		return fmt.Errorf("sequence cannot generate: it is busy or has failed (%w)", s.err)
	}
	s.con, s.start = c, len(s.Trace.Tokens)
	if done := s.advance(); s.err != nil {
		return s.err
	} else if done {
		return errors.New("the constraint ended before the first token was sampled")
	}
	if s.pending() == 0 {
		return errors.New("nothing to generate from: the sequence has no token that is not in the cache")
	}
	s.w.active = append(s.w.active, s)
	return nil
}

// Close gives the sequence's blocks back. Its trace stays.
func (s *Sequence) Close() {
	for _, b := range s.blocks {
		s.drop(b)
	}
	s.w.lendsNoMore(s)
	s.w.reserved -= s.promised
	s.w.active = slices.DeleteFunc(s.w.active, func(a *Sequence) bool { return a == s })
	s.blocks, s.promised, s.con = nil, 0, nil
}

// drop gives a block back, and with it a copy into it that is still to be made.
func (s *Sequence) drop(block int32) {
	s.w.cache.Release(block)
	s.w.copies = slices.DeleteFunc(s.w.copies, func(c [2]int32) bool { return c[1] == block })
}

func (s *Sequence) pending() int { return len(s.Trace.Tokens) - s.cached }

func (s *Sequence) push(id int32, loss bool, set int32, logProb float32) {
	t := &s.Trace
	t.Tokens = append(t.Tokens, id)
	t.Loss = append(t.Loss, loss)
	t.Sets = append(t.Sets, set)
	t.LogProbs = append(t.LogProbs, logProb)
}

// accept takes a sampled token; true when the generation is over.
func (s *Sequence) accept(d torch.Drawn) (done bool) {
	s.push(d.ID, true, s.set, d.LogProb)
	s.Kept += float64(d.Kept)
	s.Sampled++
	s.con.Accept(d.ID)
	return s.advance()
}

// advance asks the constraint what comes next; true when the generation is over.
func (s *Sequence) advance() (done bool) {
	next := s.con.Next()
	if s.err = s.Append(next.Forced...); s.err != nil {
		return true
	}
	if next.Done {
		s.con = nil
		return true
	}
	if s.Room() == 0 {
		s.err = fmt.Errorf("%d tokens, and a generation that is not done: %w", len(s.Trace.Tokens), ErrContextFull)
		return true
	}
	s.set = next.Set
	return false
}

// grow takes the blocks for n more tokens. They were promised, so there are some.
func (s *Sequence) grow(n int) {
	for len(s.blocks)*torch.BlockSize < s.cached+n {
		b, ok := s.w.cache.Alloc()
		if !ok || s.promised == 0 {
			panic(fmt.Sprintf("rollout: no block for token %d of %d, %d promised", s.cached+n, s.options.Limit, s.promised))
		}
		s.promised--
		s.w.reserved--
		s.blocks = append(s.blocks, b)
	}
}
