package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"seadtrain/internal/hfdir"
	"seadtrain/internal/precision"
	"seadtrain/model"
	"seadtrain/rollout"
	"seadtrain/torch"
)

// maxRows bounds a forward of our engine: the default of a rollout.
var maxRows = rollout.Default().MaxRows

// Engine is this program's Side.
type Engine struct {
	*hfdir.Bundle
	sets    *torch.Sets
	weights *rollout.Weights // with the held prompts; nil: none
	engine  *rollout.Engine
	prompts [][]int32
	room    int
}

// OpenEngine loads a model to generate with, as a rollout does.
func OpenEngine(dir, precisionName string) (*Engine, error) {
	dtype, _, err := precision.ForGeneration(precisionName, torch.F32)
	if err != nil {
		return nil, err
	}
	b, err := hfdir.Open(dir, model.Options{DType: torch.F32})
	if err != nil {
		return nil, err
	}
	e := &Engine{Bundle: b, sets: torch.NewSets(b.Model.Config.VocabSize)}
	exact := b.Model
	twin, err := exact.Twin(dtype)
	if err != nil {
		e.Close()
		return nil, err
	}
	b.Model = twin
	return e, torch.Do(exact.Close)
}

// Close frees the model and its cache.
func (e *Engine) Close() {
	e.drop()
	e.Bundle.Close()
}

// start makes an engine with an empty cache of that many blocks.
func (e *Engine) start(blocks int) (err error) {
	e.drop()
	if e.weights, err = rollout.NewWeights("bench", e.Model, blocks); err != nil {
		return err
	}
	e.engine, err = rollout.NewEngine(e.sets, maxRows, false, e.weights)
	return err
}

// drop frees the cache.
func (e *Engine) drop() {
	if e.weights != nil {
		if err := torch.Do(e.weights.Close); err != nil {
			panic(fmt.Errorf("bench: closing a cache: %w", err))
		}
	}
	e.weights, e.engine, e.prompts = nil, nil, nil
}

func blocksFor(tokens int) int { return (tokens + torch.BlockSize - 1) / torch.BlockSize }

func (e *Engine) Prompts(ctx context.Context, prompts [][]int32, room int) (Took, error) {
	blocks, tokens := 0, 0
	for _, p := range prompts { // a sequence shares the full blocks of its prompt and copies the last one
		blocks += blocksFor(len(p)) + blocksFor(len(p)+room) - len(p)/torch.BlockSize + 1
		tokens += len(p)
	}
	if err := e.start(blocks); err != nil {
		return Took{}, err
	}
	began := time.Now()
	for _, p := range prompts {
		if err := e.engine.Prefix(ctx, e.weights, p); err != nil {
			return Took{}, err
		}
	}
	e.prompts, e.room = prompts, room
	return Took{Seconds: time.Since(began).Seconds(), Tokens: tokens}, nil
}

// hold is Prompts, unless they are held already.
func (e *Engine) hold(ctx context.Context, prompts [][]int32, room int) error {
	if len(e.prompts) >= len(prompts) && e.room == room && slices.EqualFunc(prompts, e.prompts[:len(prompts)], slices.Equal) {
		return nil
	}
	_, err := e.Prompts(ctx, prompts, room)
	return err
}

func (e *Engine) Decode(ctx context.Context, n, tokens int) (Took, error) {
	if n > len(e.prompts) || tokens > e.room {
		return Took{}, fmt.Errorf("%d × %d tokens: %d prompts are held with room for %d", n, tokens, len(e.prompts), e.room)
	}
	seqs := make([]*rollout.Sequence, 0, n)
	defer func() {
		for _, s := range seqs {
			s.Close()
		}
	}()
	for _, p := range e.prompts[:n] {
		s, err := e.open(p, e.room, rollout.Greedy)
		if err != nil {
			return Took{}, err
		}
		seqs = append(seqs, s)
	}
	began := time.Now()
	took := Took{Tokens: tokens * len(seqs)}
	for _, s := range seqs {
		if err := s.Generate(&fixed{tokens}); err != nil {
			return Took{}, err
		}
	}
	err := e.finish(ctx, func(s *rollout.Sequence) error { return s.Err() })
	took.Seconds = time.Since(began).Seconds()
	for _, s := range seqs {
		took.IDs = append(took.IDs, s.Generated())
	}
	return took, err
}

// open starts a sequence that may grow by room tokens.
func (e *Engine) open(prompt []int32, room int, sampling rollout.Sampling) (*rollout.Sequence, error) {
	return e.weights.Open(prompt, rollout.SequenceOptions{
		Limit: len(prompt) + room, Sampling: sampling, Rand: rand.New(rand.NewPCG(1, uint64(prompt[len(prompt)-1]))),
	})
}

// finish steps until no sequence generates; over is told of each whose generation ends, and may begin others.
func (e *Engine) finish(ctx context.Context, over func(*rollout.Sequence) error) error {
	for e.engine.Busy() {
		done, err := e.engine.Step(ctx)
		if err != nil {
			return err
		}
		for _, s := range done {
			if err := over(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// Rollout plays the script with one model in both roles. It always keeps the cache and runs all dialogues at once.
func (e *Engine) Rollout(ctx context.Context, s *Script, _ How) (Took, error) {
	if err := e.start(scriptBlocks(s)); err != nil {
		return Took{}, err
	}
	defer e.drop()
	began := time.Now()
	for role, shared := range s.Shared {
		if err := e.engine.Prefix(ctx, e.weights, s.Prompts[role][0][:shared]); err != nil {
			return Took{}, err
		}
	}
	t := theatre{engine: e, script: s, parts: map[*rollout.Sequence]part{}}
	for d := range s.Dialogues() {
		if err := t.enter(d); err != nil {
			return Took{}, err
		}
	}
	if err := e.finish(ctx, t.spoke); err != nil {
		return Took{}, err
	}
	return Took{Seconds: time.Since(began).Seconds(), Tokens: s.Total()}, nil
}

// scriptBlocks plans the cache: what the shared prompts take once, and what every dialogue takes beside them.
func scriptBlocks(s *Script) (blocks int) {
	for role, shared := range s.Shared {
		blocks += blocksFor(shared) + s.Dialogues()*(blocksFor(s.Length(role)+1)-shared/torch.BlockSize)
	}
	return blocks
}

// theatre plays a script: who has spoken hands its words to the other side, as a Roller does.
type theatre struct {
	engine *Engine
	script *Script
	seqs   [2][]*rollout.Sequence
	parts  map[*rollout.Sequence]part
}

type part struct{ role, dialogue int }

// enter opens a dialogue, and the agent begins.
func (t *theatre) enter(d int) error {
	for role := range t.seqs {
		p := t.script.Prompts[role][d]
		s, err := t.engine.open(p, t.script.Length(role)+1-len(p), rollout.Sampling{Temperature: 1, TopP: 1})
		if err != nil {
			return err
		}
		t.seqs[role] = append(t.seqs[role], s)
		t.parts[s] = part{role, d}
	}
	return t.seqs[0][d].Generate(&fixed{t.script.Tokens[0]})
}

func (t *theatre) spoke(s *rollout.Sequence) error {
	if s.Err() != nil {
		return s.Err()
	}
	p := t.parts[s]
	other := t.seqs[1-p.role][p.dialogue]
	if p.role == 1 && s.Sampled == t.script.Turns*t.script.Tokens[1] { // the last turn is the user's
		s.Close()
		other.Close()
		return nil
	}
	for _, ids := range [][]int32{t.script.Before, s.Generated(), t.script.After} {
		if err := other.Append(ids...); err != nil {
			return err
		}
	}
	return other.Generate(&fixed{t.script.Tokens[1-p.role]})
}

// fixed is a turn of so many tokens, whatever they are.
type fixed struct{ left int }

func (f *fixed) Next() rollout.Next { return rollout.Next{Done: f.left == 0} }
func (f *fixed) Accept(int32)       { f.left-- }
