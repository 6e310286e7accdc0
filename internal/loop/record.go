package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"time"

	"seadtrain/curriculum"
	"seadtrain/dialogue"
	"seadtrain/rollout"
	"seadtrain/train"
)

// Metrics are one line of metrics.jsonl.
type Metrics struct {
	Step      int `json:"step"`
	Iteration int `json:"iteration"`
	// Completion is the share of successes among the judged training dialogues. The curriculum holds it near its target:
	// it says nothing about learning, the held-out evaluation does.
	Completion float64                 `json:"completion"`
	Turns      float64                 `json:"turns"` // mean, judged dialogues
	Ends       map[dialogue.End]int    `json:"ends"`
	Agent      Side                    `json:"agent"`
	User       Side                    `json:"user"`
	Train      *train.Metrics          `json:"train"`
	Updated    bool                    `json:"curriculum_updated"` // new sampling weights from here on
	Aim        float64                 `json:"curriculum_aim"`
	Bands      map[curriculum.Band]int `json:"curriculum_bands"`
	Seconds    Seconds                 `json:"seconds"`
}

// Side sums up what one role wrote.
type Side struct {
	Messages int                    `json:"messages"`
	Faults   map[dialogue.Fault]int `json:"faults"` // malformed messages by cause
	Tokens   int                    `json:"tokens"` // sampled
	Kept     float64                `json:"kept"`   // mean mass that top-p, top-k and min-p kept
}

// Seconds are wall time by phase.
type Seconds map[string]float64

func (s *Seconds) add(phase string, d time.Duration) {
	if *s == nil {
		*s = Seconds{}
	}
	(*s)[phase] += d.Seconds()
}

func (m *Metrics) fill(res *rollout.Result, stats curriculum.Stats) {
	judged, turns, success := 0, 0, 0
	for _, ep := range res.Episodes {
		if ep.End.Excluded() {
			continue
		}
		judged++
		turns += ep.Turns
		if ep.Reward > 0 {
			success++
		}
	}
	if judged > 0 {
		m.Completion, m.Turns = float64(success)/float64(judged), float64(turns)/float64(judged)
	}
	m.Ends = res.Stats.Ends
	for role, side := range map[dialogue.Role]*Side{dialogue.Agent: &m.Agent, dialogue.User: &m.User} {
		s := res.Stats.Roles[role]
		*side = Side{Messages: s.Messages, Faults: s.Faults, Tokens: s.Sampled, Kept: s.KeptMass()}
	}
	m.Aim, m.Bands = stats.Aim, stats.Bands
}

// keep writes the step's users and dialogues.
func (r *run) keep(step int, profiles []dialogue.Profile, episodes []*dialogue.Episode) error {
	err := dialogue.AtomicWrite(r.dir.Step("profiles", step), func(w io.Writer) error {
		enc := json.NewEncoder(w)
		for _, p := range profiles {
			if err := enc.Encode(p); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return dialogue.WriteEpisodes(r.dir.Step("episodes", step), values(episodes), dialogue.WriteOptions{})
}

// record ends a step: the log line, and evaluation and checkpoint when they are due.
func (r *run) record(ctx context.Context, m *Metrics) error {
	if err := r.log.Append(m); err != nil {
		return err
	}
	r.line.Clear()
	slog.Info("step", "step", fmt.Sprintf("%d/%d", m.Step, r.cfg.Steps()), "completion", fmt.Sprintf("%.3f", m.Completion),
		"turns", fmt.Sprintf("%.1f", m.Turns), "loss", fmt.Sprintf("%.4f", m.Train.Loss), "kl", fmt.Sprintf("%.4f", m.Train.KL),
		"entropy", fmt.Sprintf("%.3f", m.Train.Entropy), "grad_norm", fmt.Sprintf("%.3f", m.Train.GradNorm),
		"zero_groups", fmt.Sprintf("%d/%d", m.Train.ZeroGroups, m.Train.Groups), "excluded", m.Train.Excluded,
		"rollout_s", fmt.Sprintf("%.1f", m.Seconds["rollout"]), "train_s", fmt.Sprintf("%.1f", m.Seconds["train"]))
	due := func(every int) bool { return every > 0 && m.Step%every == 0 && m.Step < r.cfg.Steps() }
	if due(r.cfg.Checkpoint.Every) {
		if err := r.checkpoint(); err != nil {
			return err
		}
	}
	if due(r.cfg.Eval.Every) {
		return r.evaluate(ctx, m.Step)
	}
	return nil
}
