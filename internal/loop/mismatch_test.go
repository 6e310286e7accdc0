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
// way from the dialogues through packing, allowed sets and temperature, in the loop's own step. Where the agent generates
// with rounded weights, the metrics show it; in no case does the KL reference change.
func TestTrainerRecomputesTheEnginesLogProbs(t *testing.T) {
	exact := [2]float64{0, 1e-5}
	for name, c := range map[string]struct {
		model  string
		set    []string
		tokens int        // trained, at least
		off    [2]float64 // the mismatch, at least and at most
	}{
		"free":         {"embedded:nano", []string{"rollout.mode=free", "rollout.max_turns=8"}, 500, exact},
		"free, hot":    {"embedded:nano", []string{"rollout.mode=free", "rollout.agent.temperature=1.2", "rollout.agent.top_p=0.95"}, 300, exact},
		"guided":       {testmodel.Tiny(t, 1), nil, 300, exact},
		"guided, hot":  {testmodel.Tiny(t, 1), []string{"rollout.agent.temperature=1.2", "rollout.agent.top_k=40"}, 300, exact},
		"guided, nano": {"embedded:nano", []string{"rollout.agent.temperature=0.7"}, 100, exact},
		"int8 user":    {"embedded:nano", []string{"rollout.user_precision=int8"}, 100, exact},
		"bf16":         {testmodel.Tiny(t, 1), []string{"rollout.precision=bf16"}, 300, [2]float64{1e-5, 5e-3}},
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
			if off := m.Train.MismatchMax; !(off >= c.off[0] && off <= c.off[1]) {
				t.Errorf("log-probs at sampling and recomputed differ by up to %.2e, want %v", off, c.off)
			}
			if now, err := r.stage.Frozen.Checksum(); err != nil || now != r.frozen {
				t.Errorf("the KL reference has changed (%v)", err)
			}
		})
	}
}
