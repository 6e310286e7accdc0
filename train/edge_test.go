package train

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"seadtrain/dialogue"
	"seadtrain/model"
	"seadtrain/torch"
)

// plain is an episode of n tokens, trained from token from on.
func plain(id string, group int, reward float64, n, from int) *dialogue.Episode {
	tr := dialogue.Trace{Temperature: 1}
	for i := range n {
		tr.Tokens = append(tr.Tokens, int32(1+(7*i+group)%90))
		tr.Loss = append(tr.Loss, i >= from)
		tr.Sets, tr.LogProbs = append(tr.Sets, 0), append(tr.LogProbs, -4)
	}
	return &dialogue.Episode{ID: id, Group: group, Reward: reward, End: dialogue.EndTurnLimit, Agent: tr}
}

// trainerFor is one that really moves the weights: rate 1e-2, no KL and no entropy, one optimizer step.
func trainerFor(t *testing.T, change func(*Config)) *Trainer {
	t.Helper()
	g := stepGoldens(t)[0]
	c := g.config()
	c.Loss = LossConfig{ClipLow: 0.2, ClipHigh: 0.2, Norm: "token"}
	c.Optimizer.LR, c.Optimizer.WeightDecay, c.Optimizer.Warmup = 1e-2, 0, 0
	if change != nil {
		change(&c)
	}
	return g.trainer(t, c, model.Options{})
}

func checksum(t *testing.T, m *model.Model) string {
	t.Helper()
	s, err := m.Checksum()
	if err != nil || s == "" {
		t.Fatal(s, err)
	}
	return s
}

func step(t *testing.T, tr *Trainer, episodes ...*dialogue.Episode) *Metrics {
	t.Helper()
	met, err := tr.Step(context.Background(), episodes, 1)
	if err != nil {
		t.Fatal(err)
	}
	return met
}

func TestStepsThatTeachNothing(t *testing.T) {
	excluded := plain("x", 0, 1, 12, 3)
	excluded.End = dialogue.EndUserMalformed
	for _, c := range []struct {
		name     string
		episodes []*dialogue.Episode
		steps    int
		zero     int
	}{
		{"no dialogues", nil, 0, 0},
		{"no agent tokens", []*dialogue.Episode{plain("a", 0, 1, 9, 9), plain("b", 0, 0, 9, 9)}, 0, 0},
		{"a group of one", []*dialogue.Episode{plain("a", 0, 1, 9, 3)}, 1, 1},
		{"a group of one and an excluded one", []*dialogue.Episode{plain("a", 0, 0, 9, 3), excluded}, 1, 1},
		{"equal rewards", []*dialogue.Episode{plain("a", 0, 1, 9, 3), plain("b", 0, 1, 14, 3)}, 1, 1},
		{"everything excluded", []*dialogue.Episode{excluded}, 0, 0},
	} {
		tr := trainerFor(t, nil)
		before := checksum(t, tr.Policy)
		met := step(t, tr, c.episodes...)
		if met.Steps != c.steps || met.ZeroGroups != c.zero || met.GradNorm != 0 || met.Loss != 0 {
			t.Errorf("%s: %+v", c.name, met)
		}
		if checksum(t, tr.Policy) != before {
			t.Errorf("%s: weights changed", c.name)
		}
	}
	// With a KL or an entropy bonus, equal rewards still pull.
	tr := trainerFor(t, func(c *Config) { c.Loss.Entropy = 0.1 })
	before := checksum(t, tr.Policy)
	if step(t, tr, plain("a", 0, 1, 9, 3)); checksum(t, tr.Policy) == before {
		t.Error("an entropy bonus did nothing")
	}
}

func TestExcludedDialoguesAreNotInTheirGroup(t *testing.T) {
	excluded := plain("x", 0, 1, 30, 2)
	excluded.End = dialogue.EndInfrastructure
	both := func() []*dialogue.Episode {
		return []*dialogue.Episode{plain("a", 0, 1, 9, 3), plain("b", 0, 0, 14, 3)}
	}
	m, want := grads(t, trainerFor(t, nil), both())
	n, got := grads(t, trainerFor(t, nil), append(both(), excluded))
	for name := range want {
		if !(apart(got[name], want[name]) <= 1e-5) {
			t.Errorf("the gradient of %s changed", name)
		}
	}
	if m.GradNorm == 0 || n.Excluded != 1 || n.Dialogues != 3 || n.TrainedTokens != m.TrainedTokens {
		t.Errorf("%+v", n)
	}
}

func TestShortestAndLongest(t *testing.T) {
	tr := trainerFor(t, nil)
	limit := tr.Policy.MaxPositions()
	met := step(t, tr, plain("one", 0, 1, 2, 1), plain("all", 0, 0, limit, 1))
	if met.TrainedTokens != 1+limit-1 || met.Tokens != 1+limit-1 || met.GradNorm == 0 {
		t.Errorf("%+v", met)
	}
}

// Every refusal names the dialogue and leaves the weights.
func TestBadSamples(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*dialogue.Episode)
		want  string
	}{
		{"too long", func(e *dialogue.Episode) { *e = *plain(e.ID, 0, 1, 257, 3) }, "257 tokens exceed the model's context of 256"},
		{"first token trained", func(e *dialogue.Episode) { e.Agent.Loss[0] = true }, "first token is marked as trained"},
		{"unknown token", func(e *dialogue.Episode) { e.Agent.Tokens[4] = 96 }, "token 4 is id 96: the model has 96"},
		{"negative token", func(e *dialogue.Episode) { e.Agent.Tokens[4] = -1 }, "token 4 is id -1"},
		{"unknown set", func(e *dialogue.Episode) { e.Agent.Sets[5] = 4 }, "token 5 was drawn from allowed set 4, the table has 4"},
		{"flags", func(e *dialogue.Episode) { e.Agent.Loss = e.Agent.Loss[1:] }, "8 loss flags for 9 tokens"},
		{"sets", func(e *dialogue.Episode) { e.Agent.Sets = e.Agent.Sets[1:] }, "8 set ids for 9 tokens"},
		{"log-probs", func(e *dialogue.Episode) { e.Agent.LogProbs = nil }, "0 log-probs for 9 tokens"},
		{"log-prob NaN", func(e *dialogue.Episode) { e.Agent.LogProbs[8] = float32(math.NaN()) }, "token 8 has log-prob NaN"},
		{"log-prob above 0", func(e *dialogue.Episode) { e.Agent.LogProbs[8] = 0.5 }, "token 8 has log-prob 0.5"},
		{"log-prob -Inf", func(e *dialogue.Episode) { e.Agent.LogProbs[8] = float32(math.Inf(-1)) }, "token 8 has log-prob -Inf"},
		{"temperature", func(e *dialogue.Episode) { e.Agent.Temperature = 0 }, "temperature is 0"},
		{"reward", func(e *dialogue.Episode) { e.Reward = math.NaN() }, "its reward is NaN"},
		{"token outside its set", func(e *dialogue.Episode) { e.Agent.Sets[6], e.Agent.Tokens[6] = 3, 0 }, "token 6: its log-prob is -Inf"},
		{"ratio too large for fp32", func(e *dialogue.Episode) { e.Agent.LogProbs[7] = -95 }, "token 7: the loss has no gradient in fp32"},
		{"ratio too large for a double", func(e *dialogue.Episode) { e.Agent.LogProbs[7] = -900 }, "token 7: the loss has no gradient in fp32"},
	} {
		tr := trainerFor(t, nil)
		before := checksum(t, tr.Policy)
		bad := plain("1-0-bad", 0, 0, 9, 3)
		c.spoil(bad)
		_, err := tr.Step(context.Background(), []*dialogue.Episode{plain("1-0-good", 0, 1, 9, 3), bad}, 1)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "1-0-bad") {
			t.Errorf("%s: %v, want something about %q in 1-0-bad", c.name, err, c.want)
		}
		if checksum(t, tr.Policy) != before || tr.Optimizer.Step != 0 {
			t.Errorf("%s: weights changed", c.name)
		}
		// The trainer goes on, as if nothing had been.
		_, got := grads(t, tr, []*dialogue.Episode{plain("a", 0, 1, 9, 3), plain("b", 0, 0, 14, 3)})
		_, want := grads(t, trainerFor(t, nil), []*dialogue.Episode{plain("a", 0, 1, 9, 3), plain("b", 0, 0, 14, 3)})
		for name := range want {
			if !slices.Equal(got[name], want[name]) {
				t.Fatalf("%s: the step after it is another", c.name)
			}
		}
	}
}

func TestNaNWeights(t *testing.T) {
	nan := func(m *model.Model, leaf string) {
		err := torch.Do(func() {
			for _, l := range m.Leaves() {
				if l.Name == leaf {
					l.Tensor.Detach().Narrow(0, 0, 1).FillInPlace(math.NaN())
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, leaf := range []string{"layers.1.down_proj", "norm", "embed_tokens"} { // in a layer, before the head, in one logit
		tr := trainerFor(t, func(c *Config) { c.Loss.KL = 0.1 })
		for _, x := range []struct {
			m    *model.Model
			want string
		}{{tr.Reference, "reference: dialogue 1-0-a, token 3: its log-prob is NaN"}, {tr.Policy, "dialogue 1-0-a, token 3: its log-prob is NaN"}} {
			nan(x.m, leaf)
			policy, ref := checksum(t, tr.Policy), checksum(t, tr.Reference)
			_, err := tr.Step(context.Background(), []*dialogue.Episode{plain("1-0-a", 0, 1, 9, 3)}, 1)
			if err == nil || !strings.HasPrefix(err.Error(), x.want) {
				t.Errorf("%s: %v, want %q", leaf, err, x.want)
			}
			if checksum(t, tr.Policy) != policy || checksum(t, tr.Reference) != ref {
				t.Errorf("%s: weights changed", leaf)
			}
			tr.Config.Loss.KL = 0 // the second time the reference is not asked
		}
	}
}

func TestInfiniteGradientChangesNothing(t *testing.T) {
	for _, v := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
		tr := trainerFor(t, nil)
		step(t, tr, plain("a", 0, 1, 9, 3), plain("b", 0, 0, 9, 2)) // moments and step are not zero
		state := func() string {
			dir := t.TempDir()
			if err := tr.Optimizer.Save(dir); err != nil {
				t.Fatal(err)
			}
			return fileSum(t, tr.Optimizer.file(dir))
		}
		weights, before := checksum(t, tr.Policy), state()
		err := torch.Try(func() error {
			tr.back.Grads[3].Narrow(0, 0, 1).FillInPlace(v)
			_, _, err := tr.Optimizer.Apply(tr.back.Grads)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "optimizer step 2: the gradient's norm is "+fmt.Sprint(math.Abs(v))) {
			t.Errorf("%v: %v", v, err)
		}
		if checksum(t, tr.Policy) != weights || state() != before {
			t.Errorf("%v: weights or moments changed", v)
		}
	}
}

func TestCancelledStepLeavesWhatWasDone(t *testing.T) {
	tr := trainerFor(t, nil)
	before := checksum(t, tr.Policy)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := tr.Step(ctx, []*dialogue.Episode{plain("a", 0, 1, 9, 3), plain("b", 0, 0, 9, 2)}, 1); err != context.Canceled {
		t.Errorf("%v", err)
	}
	if checksum(t, tr.Policy) != before {
		t.Error("weights changed")
	}
}
