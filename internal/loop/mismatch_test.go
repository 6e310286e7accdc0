package loop

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"seadtrain/internal/progress"
	"seadtrain/internal/rundir"
	"seadtrain/internal/testmodel"
)

// What the engine says a token's log-prob was when it drew it is what the trainer finds when it recomputes it: the whole
// way from the dialogues through packing, allowed sets and temperature, in the loop's own step.
func TestTrainerRecomputesTheEnginesLogProbs(t *testing.T) {
	for name, c := range map[string]struct {
		model  string
		set    []string
		tokens int // trained, at least
	}{
		"free":         {"embedded:nano", []string{"rollout.mode=free", "rollout.max_turns=8"}, 500},
		"free, hot":    {"embedded:nano", []string{"rollout.mode=free", "rollout.agent.temperature=1.2", "rollout.agent.top_p=0.95"}, 300},
		"guided":       {testmodel.Tiny(t, 1), nil, 300},
		"guided, hot":  {testmodel.Tiny(t, 1), []string{"rollout.agent.temperature=1.2", "rollout.agent.top_k=40"}, 300},
		"guided, nano": {"embedded:nano", []string{"rollout.agent.temperature=0.7"}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := rundir.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer dir.Close()
			r, err := open(tinyConfig(t, c.model, c.set...), dir, progress.New(os.Stderr))
			if err != nil {
				t.Fatal(err)
			}
			defer r.close()
			if err := r.step(context.Background(), 1); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(dir.File("metrics.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			var m Metrics
			if err := json.Unmarshal(text, &m); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d trained tokens, mismatch at most %.1e, mean %.1e", m.Train.TrainedTokens, m.Train.MismatchMax, m.Train.MismatchMean)
			if m.Train.TrainedTokens < c.tokens {
				t.Errorf("%d trained tokens, want %d", m.Train.TrainedTokens, c.tokens)
			}
			if !(m.Train.MismatchMax <= 1e-5) {
				t.Errorf("log-probs at sampling and recomputed differ by up to %.2e", m.Train.MismatchMax)
			}
		})
	}
}
