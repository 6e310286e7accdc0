package bench

import (
	"context"
	"fmt"
	"time"

	"seadtrain/rollout"
	"seadtrain/torch"
)

// script is the multi-turn workload.
func (b *bench) script() *Script {
	z := b.Sizes
	return b.text.Script(z.Dialogues, z.Turns, [2]int{z.Prompt, z.Prompt}, [2]int{z.Words, z.Words})
}

func (b *bench) scriptWork() string {
	z := b.Sizes
	return fmt.Sprintf("%d dialogues × %d turns × 2 roles × %d tokens, prompts of %d tokens", z.Dialogues, z.Turns, z.Words, z.Prompt)
}

func (b *bench) ownRollout() []task {
	return []task{
		{names: []string{"memory_of_plan"}, share: 200, run: b.memory},
		{names: []string{"shared_prompt"}, share: 40, run: b.sharedPrompt},
		{names: []string{"scaling_dialogues"}, share: 80, run: b.scaling},
		{names: []string{"nano_rollout"}, share: 20, run: b.nanoRollout},
	}
}

// memory plays the workload once, and compares what the process grew by with what the cache was planned to take.
func (b *bench) memory(ctx context.Context, _ time.Duration) ([]Row, error) {
	s := b.script()
	plan := float64(scriptBlocks(s)+1) * float64(b.engine.Model.CacheBytes())
	var took Took
	grown, err := growth(func() (err error) {
		took, err = b.engine.Rollout(ctx, s, How{})
		return err
	})
	if err != nil {
		return nil, err
	}
	own := Row{Name: "rollout", Unit: "tokens/s", Work: b.scriptWork(), Value: Number(took.Rate()), PeerValue: Unknown,
		Ratio: Unknown, RatioLow: Unknown, RatioHigh: Unknown, Alternations: 1}
	row := Row{Name: "memory_of_plan", Unit: "MB", Peer: "plan of the KV cache", Work: b.scriptWork(), Notes: []string{"growth of the peak resident memory"}}
	return []Row{own, row.of([]float64{grown / 1e6}, plan/1e6)}, nil
}

// sharedPrompt compares a prompt that all dialogues begin with to one for each: cache blocks, and time to the first token.
// Prompts of their own take the same time each, so few of them are measured.
func (b *bench) sharedPrompt(ctx context.Context, _ time.Duration) ([]Row, error) {
	n, length := b.Sizes.Dialogues, b.Sizes.Shared
	few := min(n, 4)
	one := b.text.cut(0, length)
	shared, err := b.firstTokens(ctx, one, n, func(int) []int32 { return one })
	if err != nil {
		return nil, err
	}
	own, err := b.firstTokens(ctx, nil, few, func(i int) []int32 { return b.text.cut(i*61+1, length) })
	if err != nil {
		return nil, err
	}
	scale := float64(n) / float64(few)
	note := fmt.Sprintf("unshared: scaled linearly from %d dialogues", few)
	work := fmt.Sprintf("%d dialogues, prompt of %d tokens", n, length)
	block := float64(b.engine.Model.CacheBytes()) / 1e6
	memory := Row{Name: "shared_prompt", Unit: "MB", Peer: "unshared", Work: work + ": cache", Notes: []string{note}}
	prefill := Row{Name: "shared_prompt_time", Unit: "s", Peer: "unshared", Work: work + ": time to the first token of all", Notes: []string{note}}
	return []Row{
		memory.of([]float64{block * float64(shared.blocks)}, block*float64(own.blocks)*scale),
		prefill.of([]float64{shared.seconds}, own.seconds*scale),
	}, nil
}

type firstTokens struct {
	blocks  int
	seconds float64
}

// firstTokens opens n dialogues and draws one token of each: blocks of the cache that they take, and seconds.
func (b *bench) firstTokens(ctx context.Context, prefix []int32, n int, prompt func(i int) []int32) (f firstTokens, err error) {
	e := b.engine
	if err := e.start(blocksFor(len(prefix)) + n*(blocksFor(b.Sizes.Shared+1)-len(prefix)/torch.BlockSize)); err != nil {
		return f, err
	}
	defer e.drop()
	before, began := e.weights.Available(), time.Now()
	if err := e.engine.Prefix(ctx, e.weights, prefix); err != nil {
		return f, err
	}
	for i := range n {
		s, err := e.open(prompt(i), 1, rollout.Greedy)
		if err == nil {
			err = s.Generate(&fixed{1})
		}
		if err != nil {
			return f, err
		}
	}
	err = e.finish(ctx, func(s *rollout.Sequence) error { return s.Err() })
	return firstTokens{before - e.weights.Available(), time.Since(began).Seconds()}, err
}

// scaling gives each dialogue the same work and raises their number: tokens/s must not fall, memory must grow in line.
func (b *bench) scaling(ctx context.Context, _ time.Duration) ([]Row, error) {
	const own, words = 16, 32
	e := b.engine
	shared := b.text.cut(0, b.Sizes.Prompt-own)
	each := blocksFor(b.Sizes.Prompt+words) - len(shared)/torch.BlockSize
	var rates []float64
	var notes []string
	for _, n := range b.Sizes.Scaling {
		var seconds float64
		grown, err := growth(func() error {
			if err := e.start(blocksFor(len(shared)) + n*each); err != nil {
				return err
			}
			defer e.drop()
			began := time.Now()
			if err := e.engine.Prefix(ctx, e.weights, shared); err != nil {
				return err
			}
			for i := range n {
				s, err := e.open(append(shared[:len(shared):len(shared)], b.text.cut(i*61, own)...), words, rollout.Sampling{Temperature: 1, TopP: 1})
				if err == nil {
					err = s.Generate(&fixed{words})
				}
				if err != nil {
					return err
				}
			}
			err := e.finish(ctx, func(s *rollout.Sequence) error { return s.Err() })
			seconds = time.Since(began).Seconds()
			return err
		})
		if err != nil {
			return nil, err
		}
		rates = append(rates, float64(n*words)/seconds)
		notes = append(notes, fmt.Sprintf("%d dialogues: %.4g tokens/s, %.0f MB", n, float64(n*words)/seconds, grown/1e6))
	}
	row := Row{Name: "scaling_dialogues", Unit: "tokens/s", Peer: "fewer dialogues", Notes: append(notes, "ratio: the least from one number to the next"),
		Work: fmt.Sprintf("%v dialogues, prompt of %d tokens, %d of them shared, %d tokens drawn", b.Sizes.Scaling, b.Sizes.Prompt, len(shared), words)}
	row = row.against(rates[1:], rates[:len(rates)-1])
	row.Ratio = row.RatioLow
	return []Row{row}, nil
}

func (b *bench) rolloutAgainst(name string) []task {
	if f := peerKinds[name].rollout; f != nil {
		return f(b, name)
	}
	return nil
}

func (b *bench) rolloutAgainstOpenVINO(name string) []task {
	row := "rollout_vs_openvino"
	return []task{{names: []string{row}, peer: name, share: 800, run: func(ctx context.Context, limit time.Duration) ([]Row, error) {
		s := b.script()
		rates, err := alternate(ctx, limit, b.plays(b.engine, s, How{}), b.plays(b.peers.now, s, How{Keep: true}))
		if err != nil {
			return nil, err
		}
		r := Row{Name: row, Unit: "tokens/s", Peer: b.peers.now.Name, Work: b.scriptWork(), Notes: b.peers.now.Notes}
		return []Row{r.against(rates[0], rates[1])}, nil
	}}}
}

func (b *bench) rolloutAgainstHF(name string) []task {
	rows := []string{"rollout_vs_hf", "rollout_vs_hf_best"}
	play := task{names: rows, peer: name, share: 700, run: func(ctx context.Context, limit time.Duration) ([]Row, error) {
		s := b.script()
		const batch = 8
		plain := s.First(min(batch, s.Dialogues()))
		best, err := b.bestBatch(ctx, s, 16, 64)
		if err != nil {
			return nil, err
		}
		kept := s.First(min(best, s.Dialogues()))
		rates, err := alternate(ctx, limit, b.plays(b.engine, s, How{}), b.plays(b.peers.now, plain, How{Batch: batch}),
			b.plays(b.peers.now, kept, How{Batch: best, Keep: true}))
		if err != nil {
			return nil, err
		}
		var out []Row
		for i, part := range []*Script{plain, kept} {
			r := Row{Name: rows[i], Unit: "tokens/s", Peer: b.peers.now.Name, Work: b.scriptWork(), Notes: b.peers.now.Notes}
			r.Notes = append(r.Notes[:len(r.Notes):len(r.Notes)], []string{
				"theirs: generate for every turn, batch 8", fmt.Sprintf("theirs: KV cache kept, shared prompt computed once, batch %d", best)}[i])
			if n := part.Dialogues(); n < s.Dialogues() {
				r.Notes = append(r.Notes, fmt.Sprintf("theirs: scaled linearly from one batch of %d dialogues", n))
			}
			out = append(out, r.against(rates[0], rates[1+i]))
		}
		return out, nil
	}}
	return []task{play, b.nanoAgainst(name)}
}

// plays is a side's part of an alternation.
func (b *bench) plays(side Side, s *Script, how How) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) { return rate(side.Rollout(ctx, s, how)) }
}

// bestBatch tries one turn in several batches with the cache kept.
func (b *bench) bestBatch(ctx context.Context, s *Script, batches ...int) (best int, err error) {
	top := 0.0
	for _, n := range batches {
		n = min(n, s.Dialogues())
		short := s.First(n)
		short.Turns = 1
		r, err := rate(b.peers.now.Rollout(ctx, short, How{Batch: n, Keep: true}))
		if err != nil {
			return 0, err
		}
		if r > top {
			best, top = n, r
		}
	}
	return best, nil
}
