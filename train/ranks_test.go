package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seadtrain/dialogue"
	"seadtrain/internal/ranktest"
	"seadtrain/model"
	"seadtrain/model/safetensors"
	"seadtrain/torch"
)

// rankCases are the models of the rank tests: all families, tied and untied, and one of the nano model's size.
var rankCases = append([]string{"nano"}, tiny...)

// rankTrainer makes the same trainer on any mesh: KL, entropy, allowed sets, several micro-batches.
func rankTrainer(name string, tp, dp *torch.Comm) (*Trainer, []*dialogue.Episode, error) {
	var g struct{ Steps []stepGolden }
	b, err := os.ReadFile("testdata/gradients.json")
	if err == nil {
		err = json.Unmarshal(b, &g)
	}
	if err != nil {
		return nil, nil, err
	}
	gold := &g.Steps[0]
	var policy *model.Model
	if name == "nano" {
		policy, err = model.Init(nanoConfig(), model.Options{TP: tp}, 3)
	} else {
		policy, err = model.Load(filepath.Join(tinyDir, name), model.Options{TP: tp})
	}
	if err != nil {
		return nil, nil, err
	}
	ref, err := policy.Copy()
	if err != nil {
		return nil, nil, err
	}
	if err := torch.Do(func() {
		for _, l := range ref.Leaves() {
			l.Tensor.MulScalarInPlace(gold.Shrink)
		}
	}); err != nil {
		return nil, nil, err
	}
	c := gold.config()
	c.MicroTokens, c.HeadRows = 60, 25
	c.Optimizer.LR, c.Optimizer.MaxGradNorm, c.Optimizer.Warmup = 1e-3, 0.5, 0 // clipped, so that the norm counts
	c.Optimizer.Eps = 1e-4                                                     // a first step of g/|g| would blow rounding of tiny gradients up
	tr, err := NewTrainer(c, policy, ref, gold.table(policy.Config.VocabSize), dp, 10)
	return tr, gold.episodes(), err
}

func (t *Trainer) free() {
	_ = torch.Do(func() { t.Close(); t.Policy.Close(); t.Reference.Close() })
}

// rankStep takes one step and leaves weights and gradients, gathered, and every rank's metrics.
func rankStep(r *ranktest.Rank) error {
	for _, name := range rankCases {
		tr, episodes, err := rankTrainer(name, r.TP, r.DP)
		if err != nil {
			return err
		}
		frozen, err := tr.Reference.Checksum()
		if err != nil {
			return err
		}
		met, err := tr.Step(context.Background(), episodes, 5)
		if err != nil {
			return err
		}
		if again, err := tr.Reference.Checksum(); err != nil || again != frozen {
			return fmt.Errorf("%s: the reference changed (%v)", name, err)
		}
		met.Seconds = 0
		b, err := json.Marshal(met)
		if err == nil {
			err = os.WriteFile(filepath.Join(r.Dir, fmt.Sprintf("%s.%d.json", name, r.World)), b, 0o644)
		}
		if err == nil && r.DP.Rank() == 0 { // one whole tensor-parallel group saves
			err = save(tr, r.Dir, name)
		}
		if err != nil {
			return err
		}
		tr.free()
	}
	return nil
}

func save(tr *Trainer, dir, name string) error {
	if err := tr.Policy.Save(filepath.Join(dir, name), model.SaveOptions{}); err != nil {
		return err
	}
	return tr.Policy.Save(filepath.Join(dir, name+".grads"), model.SaveOptions{Tensors: tr.back.Grads})
}

func TestRanksEqualOne(t *testing.T) {
	want := t.TempDir()
	metrics := map[string]*Metrics{}
	for _, name := range rankCases {
		tr, episodes, err := rankTrainer(name, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if metrics[name], err = tr.Step(context.Background(), episodes, 5); err != nil {
			t.Fatal(err)
		}
		if err := save(tr, want, name); err != nil {
			t.Fatal(err)
		}
		tr.free()
	}
	for _, mesh := range [][2]int{{2, 1}, {1, 2}, {2, 2}} {
		where := fmt.Sprintf("tp %d × dp %d", mesh[0], mesh[1])
		dir := ranktest.Run(t, "step", mesh[0], mesh[1])
		for _, name := range rankCases {
			var first string
			for i := range mesh[0] * mesh[1] {
				b, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%s.%d.json", name, i)))
				if err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					first = string(b)
					sameMetrics(t, where+", "+name, b, metrics[name])
				} else if string(b) != first {
					t.Errorf("%s, %s: rank %d reports %s, rank 0 %s", where, name, i, b, first)
				}
			}
			for _, what := range []string{name, name + ".grads"} {
				sameCheckpoint(t, where+", "+what, filepath.Join(dir, what), filepath.Join(want, what), 1e-5)
			}
		}
	}
}

func sameMetrics(t *testing.T, where string, got []byte, want *Metrics) {
	t.Helper()
	var a, b map[string]float64
	w, err := json.Marshal(want)
	if err := errors.Join(err, json.Unmarshal(got, &a), json.Unmarshal(w, &b)); err != nil {
		t.Fatal(err)
	}
	for k, v := range b {
		if k != "seconds" && !(diff(a[k], v) <= 1e-5) {
			t.Errorf("%s: %s is %v, on one rank %v", where, k, a[k], v)
		}
	}
}

func diff(a, b float64) float64 { return max(a-b, b-a) / max(1, b, -b) }

// sameCheckpoint compares every tensor by the norm of the difference.
func sameCheckpoint(t *testing.T, where, gotDir, wantDir string, tol float64) {
	t.Helper()
	got, err := safetensors.Open(gotDir)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	want, err := safetensors.Open(wantDir)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	if fmt.Sprint(got.Names()) != fmt.Sprint(want.Names()) {
		t.Errorf("%s: tensors %v, want %v", where, got.Names(), want.Names())
		return
	}
	for _, n := range want.Names() {
		a, err := got.Get(n).Float32s()
		if err != nil {
			t.Fatal(err)
		}
		b, err := want.Get(n).Float32s()
		if err != nil {
			t.Fatal(err)
		}
		if d := apart(a, b); !(d <= tol) {
			t.Errorf("%s: %s is off by %.2g of its norm", where, n, d)
		}
	}
}

// rankFail: what stops one rank stops all, before they wait for each other, and changes no weight.
func rankFail(r *ranktest.Rank) error {
	for _, c := range []struct {
		name  string
		spoil func(*Trainer, []*dialogue.Episode) (context.Context, func())
		want  []string // by data-parallel rank
	}{
		{"a bad dialogue", func(tr *Trainer, e []*dialogue.Episode) (context.Context, func()) {
			// A token that its allowed set does not hold: only the rank that has this dialogue sees it.
			e[0].Agent.Tokens[1], e[0].Agent.Sets[1] = 0, 3
			return context.Background(), func() {}
		}, nil},
		{"a bad frozen copy", func(tr *Trainer, e []*dialogue.Episode) (context.Context, func()) {
			if r.DP.Rank() == 0 {
				_ = torch.Do(func() { tr.Reference.NormLeaf().Tensor.MulScalarInPlace(1e30).MulScalarInPlace(1e30) })
			}
			return context.Background(), func() {}
		}, []string{"reference: dialogue", "data-parallel rank 0 failed"}},
		{"cancelled on one rank", func(tr *Trainer, e []*dialogue.Episode) (context.Context, func()) {
			ctx, cancel := context.WithCancel(context.Background())
			if r.World == 0 {
				cancel()
			}
			return ctx, cancel
		}, []string{"context canceled", "data-parallel rank 0 failed"}},
	} {
		tr, episodes, err := rankTrainer("qwen2_tied", r.TP, r.DP)
		if err != nil {
			return err
		}
		before, err := tr.Policy.Checksum()
		if err != nil {
			return err
		}
		ctx, cancel := c.spoil(tr, episodes)
		_, err = tr.Step(ctx, episodes, 5)
		cancel()
		switch {
		case err == nil:
			return fmt.Errorf("%s: rank %d saw no error", c.name, r.World)
		case c.want == nil && !strings.Contains(err.Error(), "dialogue 1-0-0, token 1") && !strings.Contains(err.Error(), "failed; its own message says why"):
			return fmt.Errorf("%s: rank %d: %v", c.name, r.World, err)
		case c.want != nil && !strings.Contains(err.Error(), c.want[r.DP.Rank()]):
			return fmt.Errorf("%s: rank %d: %v, want %q", c.name, r.World, err, c.want[r.DP.Rank()])
		}
		if after, err := tr.Policy.Checksum(); err != nil || after != before {
			return fmt.Errorf("%s: rank %d: weights changed (%v)", c.name, r.World, err)
		}
		tr.free()
	}
	return nil
}

func TestOneRanksErrorEndsAll(t *testing.T) {
	ranktest.Run(t, "fail", 2, 2)
}
