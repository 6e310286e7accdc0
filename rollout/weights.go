package rollout

import (
	"errors"
	"fmt"
	"slices"

	"seadtrain/model"
	"seadtrain/torch"
)

// ErrNoRoom is returned when a sequence's worst case does not fit into the cache now.
var ErrNoRoom = errors.New("no room in the KV cache")

// Weights are one model that the engine generates with, and the cache of its sequences.
type Weights struct {
	Name  string // "agent", "frozen": for messages
	Model *model.Model

	cache    *model.Cache
	reserved int                 // blocks promised to open sequences and not yet taken
	prefixes []prefix            // computed for the present version
	lenders  map[int][]*Sequence // by SequenceOptions.Prompt, see waits
	version  uint64              // of the weights; 0: not known
	active   []*Sequence         // generating, in the order in which they began
	copies   [][2]int32          // blocks to copy before the next forward
	batch    batch
}

// prefix is a common beginning of sequences, held in the cache.
type prefix struct {
	ids    []int32
	blocks []int32
}

// NewWeights allocates a cache of that many blocks.
func NewWeights(name string, m *model.Model, blocks int) (*Weights, error) {
	cache, err := model.NewCache(m, blocks)
	if err != nil {
		return nil, fmt.Errorf("weights %s: %w", name, err)
	}
	return &Weights{Name: name, Model: m, cache: cache}, nil
}

// Close frees the cache; the model is the caller's.
func (w *Weights) Close() { w.cache.Close() }

// SetVersion says which weights the model holds now. With another version prefixes are dropped, and a twin takes over
// its source's weights; version 0 is never the same as before.
func (w *Weights) SetVersion(v uint64) error {
	if v != 0 && v == w.version {
		return nil
	}
	w.version = v
	for _, p := range w.prefixes {
		for _, b := range p.blocks {
			w.cache.Release(b)
		}
	}
	w.prefixes = nil
	if err := w.Model.Refresh(); err != nil {
		return fmt.Errorf("weights %s: %w", w.Name, err)
	}
	return nil
}

// Available is the number of blocks that are neither taken nor promised.
func (w *Weights) Available() int { return w.cache.Free() - w.reserved }

// Open starts a sequence with a prompt, from the longest prefix in the cache. ErrNoRoom: try again when another one has
// closed.
func (w *Weights) Open(prompt []int32, o SequenceOptions) (*Sequence, error) {
	switch {
	case len(prompt) == 0:
		return nil, errors.New("a sequence needs at least one token")
	case len(prompt) >= o.Limit:
		return nil, fmt.Errorf("prompt of %d tokens, limit %d: %w", len(prompt), o.Limit, ErrContextFull)
	case o.Limit > w.Model.MaxPositions():
		return nil, fmt.Errorf("limit of %d tokens: weights %s have %d positions", o.Limit, w.Name, w.Model.MaxPositions())
	}
	if err := w.Model.CheckIDs(prompt); err != nil {
		return nil, fmt.Errorf("prompt: %w", err)
	}
	from, n := w.longest(prompt)
	full := n / torch.BlockSize
	promised := blocksFor(o.Limit) - full
	if promised > w.Available() {
		return nil, ErrNoRoom
	}
	s := &Sequence{w: w, options: o, promised: promised, common: (len(prompt) - 1) / torch.BlockSize * torch.BlockSize}
	w.reserved += promised
	s.Trace.Temperature = o.Sampling.Temperature
	for _, b := range from[:full] {
		w.cache.Retain(b)
		s.blocks = append(s.blocks, b)
	}
	s.cached = full * torch.BlockSize
	if n > s.cached { // the rest of the prefix lies in a block that others go on from as well
		s.grow(n - s.cached)
		w.copies = append(w.copies, [2]int32{from[full], s.blocks[full]})
		s.cached = n
	}
	return s, s.Append(prompt...)
}

// longest finds the prefix that shares the most tokens with a prompt: its blocks, and how many tokens. The prompt's last
// token is always left to compute, since what comes next depends on its logits.
func (w *Weights) longest(prompt []int32) (blocks []int32, n int) {
	for _, p := range w.prefixes {
		if k := min(commonPrefix(p.ids, prompt), len(prompt)-1); k > n {
			blocks, n = p.blocks, k
		}
	}
	return blocks, n
}

// hasPrefix reports whether these very tokens are held.
func (w *Weights) hasPrefix(ids []int32) bool {
	return slices.ContainsFunc(w.prefixes, func(p prefix) bool { return slices.Equal(p.ids, ids) })
}

// keepPrefix turns a sequence, all of it computed, into a prefix.
func (w *Weights) keepPrefix(s *Sequence) {
	w.prefixes = append(w.prefixes, prefix{ids: s.Trace.Tokens, blocks: s.blocks})
	w.reserved -= s.promised
	s.blocks, s.promised = nil, 0
}

func commonPrefix(a, b []int32) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func blocksFor(tokens int) int { return (tokens + torch.BlockSize - 1) / torch.BlockSize }
