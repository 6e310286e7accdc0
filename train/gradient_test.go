package train

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"seadtrain/dialogue"
	"seadtrain/model"
	"seadtrain/model/safetensors"
	"seadtrain/torch"
)

// stepGolden is one GRPO step that Python took: see testdata/gen_golden.py.
type stepGolden struct {
	Policy  string
	Shrink  float64 // the reference's weights are the policy's times this
	Options struct {
		Norm                  string
		Length, Low, High, KL float64
		Entropy               float64
		Scale                 Scale
		LeaveOneOut           bool `json:"leave_one_out"`
	}
	Sets      [][]int32
	Dialogues []struct {
		Tokens, Sets []int32
		Mask         []int
		Temperature  float64
		Group        int
		Reward       float64
		Old          []float32
	}
	Loss                        float64
	GradNorm                    float64 `json:"grad_norm"`
	KL, Entropy, Clipped, Ratio float64
}

func stepGoldens(t *testing.T) []stepGolden {
	var g struct{ Steps []stepGolden }
	readJSON(t, "testdata/gradients.json", &g)
	if len(g.Steps) != 3 {
		t.Fatalf("%d goldens", len(g.Steps))
	}
	return g.Steps
}

func (g *stepGolden) episodes() []*dialogue.Episode {
	var out []*dialogue.Episode
	for i, d := range g.Dialogues {
		tr := dialogue.Trace{Tokens: d.Tokens, Sets: d.Sets, LogProbs: d.Old, Temperature: d.Temperature}
		for _, on := range d.Mask {
			tr.Loss = append(tr.Loss, on == 1)
		}
		out = append(out, &dialogue.Episode{ID: fmt.Sprintf("1-%d-%d", d.Group, i), Group: d.Group, Reward: d.Reward, End: dialogue.EndTurnLimit, Agent: tr})
	}
	return out
}

// config takes the golden's options with one optimizer step of rate 0, so that the gradients can be looked at.
func (g *stepGolden) config() Config {
	c := DefaultConfig()
	o := g.Options
	c.Loss = LossConfig{ClipLow: o.Low, ClipHigh: o.High, KL: o.KL, Entropy: o.Entropy, Norm: o.Norm, Length: o.Length}
	c.Scale, c.LeaveOneOut, c.MiniBatches = o.Scale, o.LeaveOneOut, 1
	c.Optimizer.LR, c.Optimizer.MaxGradNorm = 0, 0
	return c
}

func (g *stepGolden) table(vocab int) *torch.Sets {
	s := torch.NewSets(vocab)
	for _, ids := range g.Sets {
		s.Add(ids)
	}
	return s
}

// trainer loads policy and reference.
func (g *stepGolden) trainer(t *testing.T, c Config, o model.Options) *Trainer {
	t.Helper()
	dir := filepath.Join(tinyDir, g.Policy)
	policy, err := model.Load(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := policy.Copy()
	if err == nil {
		err = torch.Do(func() {
			for _, l := range ref.Leaves() {
				l.Tensor.MulScalarInPlace(g.Shrink)
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	tr, err := NewTrainer(c, policy, ref, g.table(policy.Config.VocabSize), nil, 10)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = torch.Do(func() { tr.Close(); policy.Close(); ref.Close() }) })
	return tr
}

// byName gives a list that goes with the model's leaves by the checkpoint's names.
func byName(t *testing.T, m *model.Model, list []*torch.Tensor) map[string][]float32 {
	t.Helper()
	out := map[string][]float32{}
	err := torch.Do(func() {
		for i, l := range m.Leaves() {
			g := *l
			g.Tensor = list[i]
			for k, p := range l.Parts {
				out[p.Name] = torch.Data[float32](g.View(k, m.TP().Size()))
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// grads takes one step and returns the gradients.
func grads(t *testing.T, tr *Trainer, episodes []*dialogue.Episode) (*Metrics, map[string][]float32) {
	t.Helper()
	met, err := tr.Step(context.Background(), episodes, 5)
	if err != nil {
		t.Fatal(err)
	}
	return met, byName(t, tr.Policy, tr.back.Grads)
}

func TestStepEqualsAutograd(t *testing.T) {
	for _, g := range stepGoldens(t) {
		met, got := grads(t, g.trainer(t, g.config(), model.Options{}), g.episodes())
		for _, c := range []struct {
			name      string
			got, want float64
		}{{"loss", met.Loss, g.Loss}, {"KL", met.KL, g.KL}, {"entropy", met.Entropy, g.Entropy}, {"clipped", met.ClipFraction, g.Clipped},
			{"ratio", met.RatioMean, g.Ratio}, {"gradient norm", met.GradNorm, g.GradNorm}} {
			if !(math.Abs(c.got-c.want) <= 1e-5*math.Max(1, c.want)) {
				t.Errorf("%s: %s is %v, Python has %v", g.Policy, c.name, c.got, c.want)
			}
		}
		set, err := safetensors.Open("testdata/gradients_" + g.Policy + ".safetensors")
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		if len(set.Names()) != len(got) {
			t.Errorf("%s: %d gradients, Python has %d", g.Policy, len(got), len(set.Names()))
		}
		for _, name := range set.Names() {
			want, err := set.Get(name).Float32s()
			if err != nil {
				t.Fatal(err)
			}
			if d := apart(got[name], want); !(d <= 1e-5) {
				t.Errorf("%s: gradient of %s is off by %.2g of its norm", g.Policy, name, d)
			}
		}
	}
}
