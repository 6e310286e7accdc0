package rollout

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"seadtrain/dialogue"
	"seadtrain/model"
	"seadtrain/torch"
)

// tiny loads one of the two-layer models of the golden tests: vocabulary 96, 256 positions, random weights.
func tiny(t *testing.T, name string) *model.Model {
	t.Helper()
	live := torch.Live()
	m, err := model.Load(filepath.Join("..", "model", "testdata", "tiny", name), model.Options{DType: torch.F32})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = torch.Do(m.Close)
		if n := torch.Live(); n != live {
			t.Errorf("%d tensor handles are left, %d before", n, live)
		}
	})
	return m
}

// sharpen scales the head, so that a random model's distributions are far from uniform.
func sharpen(t *testing.T, m *model.Model, by float64) {
	t.Helper()
	if err := torch.Do(func() { m.HeadLeaf().Tensor.MulScalarInPlace(by) }); err != nil {
		t.Fatal(err)
	}
}

func newTestEngine(t *testing.T, sets *torch.Sets, rows int, invariant bool, blocks int, models ...*model.Model) (*Engine, []*Weights) {
	t.Helper()
	var ws []*Weights
	for i, m := range models {
		w, err := NewWeights(fmt.Sprint("weights ", i), m, blocks)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if w.cache.Free() != w.cache.Blocks() || w.reserved != 0 {
				w.SetVersion(0)
				if w.cache.Free() != w.cache.Blocks() || w.reserved != 0 {
					t.Errorf("%d of %d blocks are free, %d promised", w.cache.Free(), w.cache.Blocks(), w.reserved)
				}
			}
			_ = torch.Do(w.Close)
		})
		ws = append(ws, w)
	}
	e, err := NewEngine(sets, rows, invariant, ws...)
	if err != nil {
		t.Fatal(err)
	}
	return e, ws
}

// run steps until nothing is left to do.
func run(t *testing.T, e *Engine) (over []*Sequence) {
	t.Helper()
	for e.Busy() {
		done, err := e.Step(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		over = append(over, done...)
	}
	return over
}

// script is a constraint of fixed steps: before each sampled token some forced ones, and a set.
type script struct {
	steps []Next
	at    int
}

func (s *script) Next() Next   { return s.steps[s.at] }
func (s *script) Accept(int32) { s.at++ }

// sampleN draws n tokens from the whole vocabulary.
func sampleN(n int) *script {
	s := &script{steps: make([]Next, n+1)}
	s.steps[n].Done = true
	return s
}

// packedLogProbs recomputes the log-probs of a trace by one full forward.
func packedLogProbs(t *testing.T, m *model.Model, tr *dialogue.Trace, sets *torch.Sets) []float64 {
	t.Helper()
	out := make([]float64, len(tr.Tokens))
	err := torch.Do(func() {
		n := len(tr.Tokens)
		pos := make([]int32, n)
		for i := range pos {
			pos[i] = int32(i)
		}
		logits := m.Logits(m.Hidden(tr.Tokens, pos, model.Packed{Cu: []int64{0, int64(n)}}))
		tg := torch.Targets{Temperature: make([]float32, n-1), IDs: tr.Tokens[1:], Set: tr.Sets[1:]}
		for i := range tg.Temperature {
			tg.Temperature[i] = float32(tr.Temperature)
			if tr.Temperature == 0 {
				tg.Temperature[i] = 1
			}
		}
		for i, s := range torch.LogitStats(logits.Narrow(0, 0, int64(n-1)), 0, tg, sets) {
			out[i+1] = s.LogProb()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// checkLogProbs holds a trace to its recomputation and reports the largest difference.
func checkLogProbs(t *testing.T, m *model.Model, tr *dialogue.Trace, sets *torch.Sets) float64 {
	t.Helper()
	worst := logProbError(t, m, tr, sets)
	if !(worst <= 1e-5) {
		t.Errorf("log-probs differ by %.2g from the full forward", worst)
	}
	return worst
}

// logProbError is the largest difference between a trace and its recomputation.
func logProbError(t *testing.T, m *model.Model, tr *dialogue.Trace, sets *torch.Sets) (worst float64) {
	t.Helper()
	for i, want := range packedLogProbs(t, m, tr, sets) {
		switch {
		case tr.Loss[i]:
			worst = max(worst, math.Abs(float64(tr.LogProbs[i])-want))
		case tr.LogProbs[i] != 0 || tr.Sets[i] != 0:
			t.Fatalf("token %d was not sampled, but has log-prob %v and set %d", i, tr.LogProbs[i], tr.Sets[i])
		}
	}
	return worst
}

func prompt(n int, seed uint64) []int32 {
	r := rand.New(rand.NewPCG(seed, 1))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = r.Int32N(90)
	}
	return ids
}

// Many sequences of all kinds at once, chunked prefill, forced tokens and sets: every log-prob is the full forward's.
func TestSampledEqualsFullForward(t *testing.T) {
	for _, name := range []string{"qwen2_untied", "qwen3_tied", "llama_untied"} {
		t.Run(name, func(t *testing.T) {
			m := tiny(t, name)
			sharpen(t, m, 2)
			sets := torch.NewSets(96)
			odd := []int32{}
			for i := int32(1); i < 96; i += 2 {
				odd = append(odd, i)
			}
			oddSet := sets.Add(odd)
			e, ws := newTestEngine(t, sets, 24, false, 200, m)
			var seqs []*Sequence
			for i := range 12 {
				s, err := ws[0].Open(prompt(3+7*i, uint64(i)), SequenceOptions{
					Limit: 200, Rand: rand.New(rand.NewPCG(7, uint64(i))),
					Sampling: Sampling{Temperature: []float64{1, .7, 1.3, 0}[i%4], TopP: []float64{1, .9}[i%2], TopK: []int{0, 0, 5}[i%3]},
				})
				if err != nil {
					t.Fatal(err)
				}
				seqs = append(seqs, s)
			}
			for turn := range 3 { // generations follow each other in one history
				for i, s := range seqs {
					steps := []Next{{Forced: prompt(1+i%3, 50)}, {Set: oddSet}, {}, {Forced: []int32{5, 6, 7}, Set: oddSet}, {}, {Forced: []int32{8}, Done: true}}
					if err := s.Append(prompt(2+(i+turn)%40, 9)...); err != nil {
						t.Fatal(err)
					}
					if err := s.Generate(&script{steps: steps}); err != nil {
						t.Fatal(err)
					}
				}
				if n := len(run(t, e)); n != len(seqs) {
					t.Fatalf("%d generations are over, want %d", n, len(seqs))
				}
			}
			worst := 0.0
			for i, s := range seqs {
				if s.Sampled != 15 {
					t.Errorf("sequence %d sampled %d tokens, want 3 turns of 5", i, s.Sampled)
				}
				for k, id := range s.Trace.Tokens {
					if s.Trace.Sets[k] == oddSet && id%2 == 0 {
						t.Errorf("sequence %d: token %d is %d, not in the set it was drawn from", i, k, id)
					}
				}
				if g := s.Generated(); g[len(g)-1] != 8 || len(g) != 1+i%3+5+3+1 {
					t.Errorf("sequence %d: last generation %v", i, g)
				}
				worst = max(worst, checkLogProbs(t, m, &s.Trace, sets))
				s.Close()
			}
			t.Logf("largest difference %.2g over %d tokens", worst, 15*len(seqs))
		})
	}
}

// A shared prefix changes nothing, whether it ends at a block's end or within one, and its blocks are shared.
func TestPrefixIsExact(t *testing.T) {
	m := tiny(t, "llama_tied")
	sharpen(t, m, 2)
	for _, n := range []int{5, 32, 64, 75} {
		sets := torch.NewSets(96)
		e, ws := newTestEngine(t, sets, 16, true, 40, m)
		w := ws[0]
		common := prompt(n, 1)
		play := func() (all []dialogue.Trace) {
			var seqs []*Sequence
			for i := range 4 {
				ask := append(slices.Clone(common), prompt(i, uint64(i))...) // i = 0: the prompt is the prefix itself
				s, err := w.Open(ask, SequenceOptions{Limit: 120, Sampling: Sampling{Temperature: 1, TopP: 1}, Rand: rand.New(rand.NewPCG(1, uint64(i)))})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Generate(sampleN(20)); err != nil {
					t.Fatal(err)
				}
				seqs = append(seqs, s)
			}
			run(t, e)
			for _, s := range seqs {
				checkLogProbs(t, m, &s.Trace, sets)
				all = append(all, s.Trace)
				s.Close()
			}
			return all
		}
		plain := play()
		w.SetVersion(3)
		if err := e.Prefix(context.Background(), w, common); err != nil {
			t.Fatal(err)
		}
		free := w.cache.Free()
		if taken := w.cache.Blocks() - free; taken != blocksFor(n) {
			t.Errorf("prefix of %d takes %d blocks", n, taken)
		}
		shared := play()
		if w.cache.Free() != free {
			t.Errorf("prefix of %d: %d blocks free, %d before", n, w.cache.Free(), free)
		}
		for i := range plain {
			if !slices.Equal(plain[i].Tokens, shared[i].Tokens) || !slices.Equal(plain[i].LogProbs, shared[i].LogProbs) {
				t.Errorf("prefix of %d, sequence %d: the shared form gives other tokens or log-probs", n, i)
			}
		}
		// Computed once per version: the same again costs nothing, another version or prefix does.
		forwards := e.Forwards
		w.SetVersion(3)
		if err := e.Prefix(context.Background(), w, common); err != nil || e.Forwards != forwards {
			t.Errorf("the same version computes the prefix again (%v)", err)
		}
		w.SetVersion(4)
		if w.cache.Free() != w.cache.Blocks() {
			t.Errorf("a new version keeps %d blocks", w.cache.Blocks()-w.cache.Free())
		}
		if err := e.Prefix(context.Background(), w, common); err != nil || e.Forwards == forwards {
			t.Errorf("a new version does not compute the prefix (%v)", err)
		}
		w.SetVersion(0)
	}
}

// Sharing saves the work, and a sequence that needs more than there is waits until another closes.
func TestAdmission(t *testing.T) {
	m := tiny(t, "qwen2_tied")
	e, ws := newTestEngine(t, torch.NewSets(96), 64, false, 7, m)
	w := ws[0]
	common := prompt(40, 1) // one full block, one of 8 tokens
	w.SetVersion(1)
	if err := e.Prefix(context.Background(), w, common); err != nil {
		t.Fatal(err)
	}
	o := SequenceOptions{Limit: 96, Sampling: Greedy, Rand: rand.New(rand.NewPCG(1, 1))}
	ask := append(slices.Clone(common), 3)
	var seqs []*Sequence
	for range 2 { // 7 - 2 of the prefix = 5; each needs 96/32 - 1 shared = 2
		s, err := w.Open(ask, o)
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, s)
	}
	if n := w.Available(); n != 1 {
		t.Errorf("%d blocks available, want 5 - 2·2", n)
	}
	if _, err := w.Open(ask, o); !errors.Is(err, ErrNoRoom) {
		t.Fatalf("a third sequence: %v, want no room", err)
	}
	for _, s := range seqs { // the worst case really fits
		if err := s.Generate(sampleN(55)); err != nil {
			t.Fatal(err)
		}
	}
	rows := e.Rows
	run(t, e)
	if rows = e.Rows - rows; rows != 2*55 { // prompt's last token, then 54 sampled ones: the prefix is not run again
		t.Errorf("%d rows, want 110", rows)
	}
	seqs[0].Close()
	if s, err := w.Open(ask, o); err != nil {
		t.Error(err)
	} else {
		s.Close()
	}
	seqs[1].Close()
	w.SetVersion(0)
}

// A model held in bf16 generates through operations that every device has, and its log-probs are those of its own full forward.
func TestGenerationWithoutKernels(t *testing.T) {
	m := inType(t, tiny(t, "qwen3_untied"), torch.BF16)
	sets := torch.NewSets(m.Config.VocabSize)
	e, ws := newTestEngine(t, sets, 13, false, 20, m)
	prompt := make([]int32, torch.BlockSize+7)
	for i := range prompt {
		prompt[i] = int32(i * 5 % 96)
	}
	if err := e.Prefix(context.Background(), ws[0], prompt[:torch.BlockSize+3]); err != nil {
		t.Fatal(err)
	}
	var seqs []*Sequence
	for i := range 3 {
		s, err := ws[0].Open(prompt, SequenceOptions{Limit: 90, Prompt: 1, Sampling: Sampling{Temperature: 1, TopP: 1}, Rand: rand.New(rand.NewPCG(2, uint64(i)))})
		if err == nil {
			err = s.Generate(sampleN(20))
		}
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, s)
	}
	run(t, e)
	for i, s := range seqs {
		worst := logProbError(t, m, &s.Trace, sets)
		t.Logf("sequence %d is off by %.2g", i, worst)
		if !(worst < .05) { // logits of about 1 in bf16
			t.Errorf("sequence %d: log-probs are off by %.2g of the full forward's", i, worst)
		}
		s.Close()
	}
	if fmt.Sprint(seqs[0].Trace.Tokens) == fmt.Sprint(seqs[1].Trace.Tokens) {
		t.Error("two streams draw the same")
	}
}

func TestSequenceErrors(t *testing.T) {
	m := tiny(t, "qwen2_tied")
	e, ws := newTestEngine(t, torch.NewSets(96), 64, false, 20, m)
	o := SequenceOptions{Limit: 40, Sampling: Greedy, Rand: rand.New(rand.NewPCG(1, 1))}
	if _, err := ws[0].Open(prompt(40, 1), o); !errors.Is(err, ErrContextFull) {
		t.Errorf("prompt as long as the limit: %v", err)
	}
	if _, err := ws[0].Open([]int32{96}, o); err == nil {
		t.Error("a token outside the vocabulary is taken")
	}
	if _, err := ws[0].Open([]int32{1}, SequenceOptions{Limit: 257}); err == nil {
		t.Error("a limit beyond the model's positions is taken")
	}
	full, err := ws[0].Open(prompt(30, 1), o)
	if err != nil {
		t.Fatal(err)
	}
	fine, err := ws[0].Open(prompt(20, 1), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := full.Append(prompt(11, 2)...); !errors.Is(err, ErrContextFull) {
		t.Errorf("append beyond the limit: %v", err)
	}
	for _, s := range []*Sequence{full, fine} {
		if err := s.Generate(sampleN(15)); err != nil {
			t.Fatal(err)
		}
	}
	over := run(t, e)
	if len(over) != 2 || over[0] != full || !errors.Is(full.Err(), ErrContextFull) || len(full.Trace.Tokens) != 40 {
		t.Errorf("the full sequence ended with %v at %d tokens", full.Err(), len(full.Trace.Tokens))
	}
	if fine.Err() != nil || fine.Sampled != 15 {
		t.Errorf("its neighbour: %v, %d tokens", fine.Err(), fine.Sampled)
	}
	full.Close()
	fine.Close()
}

// poison makes a token's embedding NaN.
func poison(t *testing.T, m *model.Model, id int32) {
	t.Helper()
	if err := torch.Do(func() { m.EmbedLeaf().Tensor.Narrow(0, int64(id), 1).FillInPlace(math.NaN()) }); err != nil {
		t.Fatal(err)
	}
}

// One sequence reads a token whose embedding is NaN: it fails, and its neighbours draw what they draw without it.
func TestBadLogitsAreIsolated(t *testing.T) {
	m := tiny(t, "qwen2_untied")
	sharpen(t, m, 2)
	poison(t, m, 95)
	e, ws := newTestEngine(t, torch.NewSets(96), 64, true, 30, m)
	play := func(poison bool) (all [][]int32) {
		var seqs []*Sequence
		for i := range 5 {
			s, err := ws[0].Open(prompt(6, uint64(i)), SequenceOptions{Limit: 60, Sampling: Sampling{Temperature: 1, TopP: .9}, Rand: rand.New(rand.NewPCG(1, uint64(i)))})
			if err != nil {
				t.Fatal(err)
			}
			c := sampleN(12)
			if poison && i == 2 {
				c.steps[4].Forced = []int32{95}
			} else {
				ids := make([]int32, 95)
				for k := range ids {
					ids[k] = int32(k)
				}
				for k := range 12 {
					c.steps[k].Set = e.Sets.Add(ids)
				}
			}
			if err := s.Generate(c); err != nil {
				t.Fatal(err)
			}
			seqs = append(seqs, s)
		}
		if n := len(run(t, e)); n != 5 {
			t.Fatalf("%d sequences are over", n)
		}
		for i, s := range seqs {
			if bad := poison && i == 2; bad != (s.Err() != nil) || !bad && s.Sampled != 12 || bad && s.Sampled != 4 {
				t.Errorf("sequence %d: %v after %d tokens", i, s.Err(), s.Sampled)
			}
			all = append(all, s.Trace.Tokens)
			s.Close()
		}
		return all
	}
	clean, poisoned := play(false), play(true)
	again := play(false) // in blocks that held NaN
	for i := range clean {
		if i != 2 && !slices.Equal(clean[i], poisoned[i]) || !slices.Equal(clean[i], again[i]) {
			t.Errorf("sequence %d differs beside a poisoned one", i)
		}
	}
}

// In batch-invariant mode a sequence is the same alone, in company, in any order and with any number of rows per step.
func TestBatchInvariance(t *testing.T) {
	m := tiny(t, "qwen3_untied")
	sharpen(t, m, 2)
	play := func(rows int, order []int) [40]dialogue.Trace {
		var out [40]dialogue.Trace
		e, ws := newTestEngine(t, torch.NewSets(96), rows, true, 40*8, m)
		var seqs []*Sequence
		for _, i := range order {
			s, err := ws[0].Open(prompt(1+i*3%50, uint64(i)), SequenceOptions{Limit: 200, Sampling: Sampling{Temperature: 1.2, TopP: .95}, Rand: rand.New(rand.NewPCG(5, uint64(i)))})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Generate(sampleN(30 + i)); err != nil {
				t.Fatal(err)
			}
			seqs = append(seqs, s)
		}
		run(t, e)
		for k, i := range order {
			out[i] = seqs[k].Trace
			seqs[k].Close()
		}
		return out
	}
	order := rand.New(rand.NewPCG(2, 2)).Perm(40)
	want := play(512, order)
	slices.Reverse(order)
	for _, rows := range []int{1, 7, 64, 512} {
		got := play(rows, order)
		same(t, fmt.Sprint(rows, " rows, reversed"), order, got[:], want[:])
	}
	for k, i := range order[:5] {
		torch.SetNumThreads(1 + k/4) // the last one with two threads
		got := play(512, []int{i})
		same(t, "alone", []int{i}, got[:], want[:])
	}
	torch.SetNumThreads(1)
}

func same(t *testing.T, what string, order []int, got, want []dialogue.Trace) {
	t.Helper()
	for _, i := range order {
		if !slices.Equal(got[i].Tokens, want[i].Tokens) || !slices.Equal(got[i].LogProbs, want[i].LogProbs) {
			t.Errorf("%s: sequence %d differs", what, i)
			return
		}
	}
}

func TestCancelledStep(t *testing.T) {
	e, ws := newTestEngine(t, torch.NewSets(96), 64, false, 20, tiny(t, "qwen2_tied"))
	s, err := ws[0].Open(prompt(4, 1), SequenceOptions{Limit: 60, Sampling: Greedy, Rand: rand.New(rand.NewPCG(1, 1))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Generate(sampleN(10)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := e.Step(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := e.Step(ctx); !errors.Is(err, context.Canceled) || s.Sampled != 1 {
		t.Errorf("after cancellation: %v, %d tokens", err, s.Sampled)
	}
}
