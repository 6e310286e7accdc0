package torch

/*
#include "seadnative.h"
*/
import "C"

import (
	"fmt"
	"math"
	"unsafe"
)

// Sets is a table of allowed sets of token ids. Set 0 is the whole vocabulary. A nil table holds set 0 only.
type Sets struct {
	vocab, words int
	bits         []uint64 // [sets, words]
}

// NewSets makes a table that holds set 0 only.
func NewSets(vocab int) *Sets {
	w := (vocab + 63) / 64
	return &Sets{vocab: vocab, words: w, bits: make([]uint64, w)}
}

// Add stores a set and gives its id. It must not run beside a call that uses the table.
func (s *Sets) Add(ids []int32) int32 {
	row := make([]uint64, s.words)
	for _, id := range ids {
		if id < 0 || int(id) >= s.vocab {
			panic(&Error{Op: "sets.add", Code: CodeIndex, Msg: fmt.Sprintf("id %d is outside the vocabulary of %d", id, s.vocab)})
		}
		row[id>>6] |= 1 << (id & 63)
	}
	s.bits = append(s.bits, row...)
	return int32(len(s.bits)/s.words - 1)
}

// Len is the number of sets, set 0 included.
func (s *Sets) Len() int { return len(s.bits) / s.words }

// Has reports whether a set holds an id.
func (s *Sets) Has(set, id int32) bool {
	return set == 0 || s.bits[int(set)*s.words+int(id>>6)]>>(id&63)&1 == 1
}

func (s *Sets) c() C.sn_sets {
	if s == nil {
		return C.sn_sets{}
	}
	return C.sn_sets{bits: (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(s.bits))), words: C.int(s.words), count: C.int(s.Len())}
}

// Targets describes the rows of a batch of logits: what was drawn, from which set, at which temperature.
type Targets struct {
	IDs         []int32
	Set         []int32
	Temperature []float32
}

// Stats are the sums of one row of logits from which log-prob and entropy follow; rows of the shards of a vocabulary
// merge by Merge.
type Stats struct {
	Max, Sum, Weighted, Target float64 // max z, Σe^(z-max), Σe^(z-max)·z, z of the target (NaN: not here)
}

// Merge joins the statistics of two parts of one row.
func (a Stats) Merge(b Stats) Stats {
	m := math.Max(a.Max, b.Max)
	fa, fb := math.Exp(a.Max-m), math.Exp(b.Max-m)
	out := Stats{m, a.Sum*fa + b.Sum*fb, a.Weighted*fa + b.Weighted*fb, a.Target}
	if math.IsNaN(a.Target) {
		out.Target = b.Target
	}
	return out
}

// LSE is log Σ e^z.
func (a Stats) LSE() float64 { return a.Max + math.Log(a.Sum) }

// LogProb is log π(target).
func (a Stats) LogProb() float64 { return a.Target - a.LSE() }

// Entropy is -Σ π log π.
func (a Stats) Entropy() float64 { return a.LSE() - a.Weighted/a.Sum }

// LogitStats reads logits [n, v], whose first column is vocabulary id offset. Meta logits
// give log-prob and entropy 0.
func LogitStats(logits *Tensor, offset int64, t Targets, sets *Sets) []Stats {
	out := make([]Stats, len(t.IDs))
	checkRows("logit_stats", logits, len(t.IDs), len(t.Set), len(t.Temperature))
	check("logit_stats", C.sn_logit_stats(logits.h, C.int64_t(offset), floats(t.Temperature), ints(t.Set), sets.c(), ints(t.IDs),
		(*C.double)(unsafe.Pointer(unsafe.SliceData(out)))), logits)
	return out
}

// LogitGradInPlace turns logits into the gradient of Σ dLogProb·log π(target) + dEntropy·H; whole are the merged
// statistics of the rows.
func LogitGradInPlace(logits *Tensor, offset int64, t Targets, sets *Sets, whole []Stats, dLogProb, dEntropy []float64) {
	n := len(t.IDs)
	checkRows("logit_grad_", logits, n, len(t.Set), len(t.Temperature), len(whole), len(dLogProb), len(dEntropy))
	lse, ent := make([]float64, n), make([]float64, n)
	for i, s := range whole {
		lse[i], ent[i] = s.LSE(), s.Entropy()
	}
	check("logit_grad_", C.sn_logit_grad_(logits.h, C.int64_t(offset), floats(t.Temperature), ints(t.Set), sets.c(), ints(t.IDs),
		doubles(lse), doubles(ent), doubles(dLogProb), doubles(dEntropy)), logits)
}

// Draw says how one row is sampled. Truncations act in the order top-k, top-p, min-p, as in Hugging Face; of equal logits
// the lower ids come first.
type Draw struct {
	Temperature float32 // 0 or less: greedy, with log-probs at temperature 1
	TopP        float32 // 1: off
	MinP        float32 // 0: off
	TopK        int32   // 0: off
	Set         int32   // allowed set
	U           float64 // uniform in [0, 1): the row's own random number
}

// Drawn is one sampled token.
type Drawn struct {
	ID      int32
	LogProb float32 // under π: softmax(logits/T) over the allowed set, not renormalised by the truncation
	Kept    float32 // mass of π that the truncation kept
}

// Sample draws one token per row of logits [n, vocab]. It panics with an Error if a row cannot be drawn from.
func Sample(logits *Tensor, draws []Draw, sets *Sets) []Drawn {
	out, errs := SampleRows(logits, draws, sets)
	for _, err := range errs {
		if err != nil {
			panic(err)
		}
	}
	return out
}

// SampleRows is Sample for rows that must not fail together: errs is nil if all went well, else it has an *Error for each
// row that cannot be drawn from (NaN or Inf, or an empty allowed set) and nil for the others.
func SampleRows(logits *Tensor, draws []Draw, sets *Sets) (out []Drawn, errs []error) {
	out = make([]Drawn, len(draws))
	checkRows("sample", logits, len(draws))
	check("sample", C.sn_sample(logits.h, (*C.sn_draw)(unsafe.Pointer(unsafe.SliceData(draws))), sets.c(),
		(*C.sn_drawn)(unsafe.Pointer(unsafe.SliceData(out)))), logits)
	for i, d := range out {
		if d.ID >= 0 {
			continue
		}
		if errs == nil {
			errs = make([]error, len(out))
		}
		e := &Error{Op: "sample", Shapes: [][]int64{logits.Shape()}, Code: CodeValue, Msg: fmt.Sprintf("row %d holds NaN or Inf", i)}
		if d.ID == C.SN_NOTHING_ALLOWED {
			e.Msg = fmt.Sprintf("row %d: allowed set %d is empty", i, draws[i].Set)
		}
		errs[i] = e
	}
	return out, errs
}

func floats(s []float32) *C.float   { return (*C.float)(unsafe.Pointer(unsafe.SliceData(s))) }
func doubles(s []float64) *C.double { return (*C.double)(unsafe.Pointer(unsafe.SliceData(s))) }
func ints(s []int32) *C.int32_t     { return (*C.int32_t)(unsafe.Pointer(unsafe.SliceData(s))) }

func checkRows(op string, logits *Tensor, counts ...int) {
	for _, n := range counts {
		if logits.Dim(0) != int64(n) {
			panic(&Error{Op: op, Shapes: [][]int64{logits.Shape(), {int64(n)}}, Code: CodeShape, Msg: "one entry per row of logits is needed"})
		}
	}
}
