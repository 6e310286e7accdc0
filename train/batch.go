package train

import (
	"fmt"
	"math"

	"seadtrain/model"
	"seadtrain/torch"
)

// Sample is one sequence to train on: tokens, and which of them the policy drew.
type Sample struct {
	ID     string // names the dialogue in errors
	Tokens []int32
	Loss   []bool  // per token: trained; the first token never is, nothing predicts it
	Sets   []int32 // per token: allowed set it was drawn from; nil: the whole vocabulary throughout
	// Temperature of the policy, > 0.
	Temperature float64
	LogProbs    []float32 // per token: log-prob at sampling (old log-prob); nil for SFT
	Advantage   float64
	Group       int
}

// Trained is the number of trained tokens.
func (s *Sample) Trained() int {
	n := 0
	for _, l := range s.Loss {
		if l {
			n++
		}
	}
	return n
}

// check refuses what a forward of m cannot take. sets holds the allowed sets; nil: only the whole vocabulary.
func (s *Sample) check(m *model.Model, sets *torch.Sets) error {
	n := len(s.Tokens)
	switch {
	case len(s.Loss) != n:
		return fmt.Errorf("sample %s: %d loss flags for %d tokens", s.ID, len(s.Loss), n)
	case s.Sets != nil && len(s.Sets) != n:
		return fmt.Errorf("sample %s: %d set ids for %d tokens", s.ID, len(s.Sets), n)
	case n > m.MaxPositions():
		return fmt.Errorf("sample %s: %d tokens exceed the model's context of %d", s.ID, n, m.MaxPositions())
	case n > 0 && s.Loss[0]:
		return fmt.Errorf("sample %s: its first token is marked as trained, but nothing comes before it", s.ID)
	case !(s.Temperature > 0) || math.IsInf(s.Temperature, 0):
		return fmt.Errorf("sample %s: temperature is %v, want a number above 0", s.ID, s.Temperature)
	}
	if err := m.CheckIDs(s.Tokens); err != nil {
		return fmt.Errorf("sample %s: %w", s.ID, err)
	}
	known := int32(1)
	if sets != nil {
		known = int32(sets.Len())
	}
	for i, set := range s.Sets {
		if set < 0 || set >= known {
			return fmt.Errorf("sample %s: token %d was drawn from allowed set %d, the table has %d", s.ID, i, set, known)
		}
	}
	return nil
}

// checkPolicy refuses a sample that a policy gradient cannot use.
func (s *Sample) checkPolicy() error {
	if len(s.LogProbs) != len(s.Tokens) {
		return fmt.Errorf("sample %s: %d log-probs for %d tokens", s.ID, len(s.LogProbs), len(s.Tokens))
	}
	for i, lp := range s.LogProbs {
		if s.Loss[i] && !(lp <= 1e-3 && lp >= -math.MaxFloat32) { // rounding may lift it a little above 0
			return fmt.Errorf("sample %s: token %d has log-prob %v at sampling, want a number of at most 0", s.ID, i, lp)
		}
	}
	return nil
}

// Batch is a packed micro-batch: whole samples one after another.
type Batch struct {
	Samples  []*Sample
	IDs, Pos []int32 // [n]
	Cu       []int64 // offsets of the samples, from 0 to n
	// The rows that predict a trained token: hidden state Rows[j] predicts Targets.IDs[j], token Token[j] of sample
	// Sample[j].
	Rows    []int32
	Targets torch.Targets
	Sample  []int32
	Token   []int32
}

// Pack fills micro-batches of at most maxTokens tokens in the order given; a sample larger than that stands alone.
// Samples without trained tokens are left out: they can add nothing.
func Pack(samples []*Sample, maxTokens int) []*Batch {
	var out []*Batch
	var b *Batch
	for _, s := range samples {
		if s.Trained() == 0 {
			continue
		}
		if b == nil || (len(b.IDs) > 0 && len(b.IDs)+len(s.Tokens) > maxTokens) {
			b = &Batch{Cu: []int64{0}}
			out = append(out, b)
		}
		b.add(s)
	}
	return out
}

func (b *Batch) add(s *Sample) {
	base := len(b.IDs)
	// The last token predicts nothing that is trained; leaving it out of the forward changes no other row.
	n := len(s.Tokens)
	for n > 1 && !s.Loss[n-1] {
		n--
	}
	for i := range n - 1 {
		b.IDs = append(b.IDs, s.Tokens[i])
		b.Pos = append(b.Pos, int32(i))
		if !s.Loss[i+1] {
			continue
		}
		set := int32(0)
		if s.Sets != nil {
			set = s.Sets[i+1]
		}
		b.Rows = append(b.Rows, int32(base+i))
		b.Targets.IDs = append(b.Targets.IDs, s.Tokens[i+1])
		b.Targets.Set = append(b.Targets.Set, set)
		b.Targets.Temperature = append(b.Targets.Temperature, float32(s.Temperature))
		b.Sample = append(b.Sample, int32(len(b.Samples)))
		b.Token = append(b.Token, int32(i+1))
	}
	b.Cu = append(b.Cu, int64(len(b.IDs)))
	b.Samples = append(b.Samples, s)
}

// part is rows [from, to) of the targets.
func part(t torch.Targets, from, to int) torch.Targets {
	return torch.Targets{IDs: t.IDs[from:to], Set: t.Set[from:to], Temperature: t.Temperature[from:to]}
}
