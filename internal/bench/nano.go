package bench

import (
	"context"
	"fmt"
	"time"

	"seadtrain/curriculum"
	"seadtrain/dialogue"
	"seadtrain/internal/hfdir"
	"seadtrain/model"
	"seadtrain/rollout"
	"seadtrain/scenarios"
	"seadtrain/torch"
)

const nanoGroup = 8 // dialogues of a profile, as in the paper

// nano is a step of the paper's size, played by the shipped model with itself: real dialogues, which end when they end.
type nano struct {
	bundle *hfdir.Bundle
	roller *rollout.Roller
	ask    rollout.Request
}

func openNano(dialogues int) (n *nano, err error) {
	n = &nano{}
	if n.bundle, err = hfdir.Open("embedded:nano", model.Options{DType: torch.F32}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	scn, err := scenarios.Load("nano", "en")
	if err != nil {
		return nil, err
	}
	users, err := curriculum.New(curriculum.Default(), scn, 1)
	if err != nil {
		return nil, err
	}
	n.ask = rollout.Request{Profiles: users.Sample(max(1, dialogues/nanoGroup)), Group: min(nanoGroup, dialogues), Seed: 1}
	n.roller, err = rollout.New(rollout.Config{
		Agent: rollout.Role{Sampling: rollout.Sampling{Temperature: 1, TopP: 1}, MaxTokens: 64, Context: 1024},
		User:  rollout.Role{Sampling: rollout.Sampling{Temperature: .7, TopP: 1}, MaxTokens: 80, Context: 1024},
		Mode:  dialogue.Free, MaxDialogues: dialogues, MaxRows: maxRows, MaxExcluded: 1, Precision: "fp32", UserPrecision: "fp32",
	}, rollout.Parts{Scenario: scn, Tokenizer: n.bundle.Tokenizer, Template: n.bundle.Chat, Agent: n.bundle.Model, Frozen: n.bundle.Model})
	return n, err
}

func (n *nano) close() {
	if n.roller != nil {
		n.roller.Close()
	}
	n.bundle.Close()
}

// play runs the step once.
func (n *nano) play(ctx context.Context) (Took, *rollout.Result, error) {
	res, err := n.roller.Run(ctx, n.ask)
	if err != nil {
		return Took{}, nil, err
	}
	return Took{Seconds: res.Stats.Elapsed.Seconds(), Tokens: res.Stats.Roles[0].Sampled + res.Stats.Roles[1].Sampled}, res, nil
}

// script has the mean lengths of dialogues that were played: as many turns and words, in prompts as long.
func (n *nano) script(res *rollout.Result) (*Script, error) {
	text, err := ReadText(n.bundle)
	if err != nil {
		return nil, err
	}
	agent, user := res.Stats.Roles[0], res.Stats.Roles[1]
	dialogues := len(res.Episodes)
	turns := max(1, (agent.Messages+user.Messages+dialogues)/(2*dialogues)) // to the nearest
	drawn := func(s rollout.RoleStats) int { return max(1, (s.Sampled+s.Messages/2)/max(1, s.Messages)) }
	var prompts [2]int
	for role, ep := range []*dialogue.Trace{&res.Episodes[0].Agent, &res.Episodes[0].User} {
		for prompts[role] < len(ep.Loss) && !ep.Loss[prompts[role]] {
			prompts[role]++
		}
	}
	return text.Script(dialogues, turns, prompts, [2]int{drawn(agent), drawn(user)}), nil
}

func (b *bench) nanoWork(res *rollout.Result) string {
	s := res.Stats
	return fmt.Sprintf("nano model, %d dialogues, %.1f messages and %.0f drawn tokens each", len(res.Episodes),
		float64(s.Roles[0].Messages+s.Roles[1].Messages)/float64(len(res.Episodes)), float64(s.Roles[0].Sampled+s.Roles[1].Sampled)/float64(len(res.Episodes)))
}

func (b *bench) nanoRollout(ctx context.Context, _ time.Duration) ([]Row, error) {
	n, err := openNano(b.Sizes.Nano)
	if err != nil {
		return nil, err
	}
	defer n.close()
	took, res, err := n.play(ctx)
	if err != nil {
		return nil, err
	}
	return []Row{{Name: "nano_rollout", Unit: "tokens/s", Work: b.nanoWork(res), Value: Number(took.Rate()), PeerValue: Unknown, Ratio: Unknown,
		RatioLow: Unknown, RatioHigh: Unknown, Alternations: 1, Notes: []string{fmt.Sprintf("%.3g s", took.Seconds)}}}, nil
}

// nanoAgainst compares our real dialogues with a script of their mean lengths: the peer never waits for the longest of a
// batch, and reads nothing but tokens.
func (b *bench) nanoAgainst(name string) task {
	return task{names: []string{"nano_rollout_vs_hf"}, peer: name, share: 150, run: func(ctx context.Context, limit time.Duration) ([]Row, error) {
		n, err := openNano(b.Sizes.Nano)
		if err != nil {
			return nil, err
		}
		defer n.close()
		_, res, err := n.play(ctx)
		if err != nil {
			return nil, err
		}
		s, err := n.script(res)
		if err != nil {
			return nil, err
		}
		if err := b.peers.load(ctx, n.bundle.Dir, "fp32", 0); err != nil {
			return nil, err
		}
		best, err := b.bestBatch(ctx, s, 64, 160, 480)
		if err != nil {
			return nil, err
		}
		part := s.First(min(best, s.Dialogues()))
		rates, err := alternate(ctx, limit, func(ctx context.Context) (float64, error) {
			took, _, err := n.play(ctx)
			return rate(took, err)
		}, b.plays(b.peers.now, part, How{Batch: best, Keep: true}))
		if err != nil {
			return nil, err
		}
		r := Row{Name: "nano_rollout_vs_hf", Unit: "tokens/s", Peer: b.peers.now.Name, Work: b.nanoWork(res), Notes: []string{
			fmt.Sprintf("theirs: the mean lengths, %d turns of %d and %d tokens, all alike; KV cache kept, batch %d", s.Turns, s.Tokens[0], s.Tokens[1], best)}}
		if part.Dialogues() < s.Dialogues() {
			r.Notes = append(r.Notes, fmt.Sprintf("theirs: scaled linearly from one batch of %d dialogues", part.Dialogues()))
		}
		return []Row{r.against(rates[0], rates[1])}, nil
	}}
}
