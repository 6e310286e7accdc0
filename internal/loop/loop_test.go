package loop

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"seadtrain/internal/config"
	"seadtrain/internal/progress"
	"seadtrain/internal/rundir"
	"seadtrain/internal/testmodel"
	"seadtrain/torch"
)

func tinyConfig(t *testing.T, model string, set ...string) *Config {
	t.Helper()
	cfg := Default()
	if err := config.Parse("tiny.toml", []byte(testmodel.RunConfig(model)), set, &cfg); err != nil {
		t.Fatal(err)
	}
	return &cfg
}

// run runs in a directory and leaves it.
func runIn(t *testing.T, ctx context.Context, cfg *Config, path string, steps int) (*Summary, error) {
	t.Helper()
	dir, err := rundir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	return Run(ctx, cfg, dir, Options{MaxSteps: steps, Line: progress.New(os.Stderr)})
}

// files are the contents that must not depend on where a run was stopped.
func files(t *testing.T, run string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"episodes/*", "profiles/*", "eval/*", "checkpoints/step-4/manifest.json", "config.toml"} {
		paths, err := filepath.Glob(filepath.Join(run, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %q, %v", pattern, paths, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			name, _ := filepath.Rel(run, path)
			out[name] = string(text)
		}
	}
	return out
}

func sameFiles(t *testing.T, why string, got, want map[string]string) {
	t.Helper()
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s: %s differs:\n%.300s\nwant\n%.300s", why, name, got[name], want[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d files, want %d", why, len(got), len(want))
	}
}

// One step and a stop, two and a stop, one more: the weights, optimizer, curriculum, dialogues and evaluations of four.
// The checkpoint's manifest holds a hash of every file, so equal manifests are equal weights.
func TestResumeEqualsUninterrupted(t *testing.T) {
	live := torch.Live()
	cfg := tinyConfig(t, testmodel.Tiny(t, 1))
	whole, parts := t.TempDir(), t.TempDir()
	s, err := runIn(t, context.Background(), cfg, whole, 0)
	if err != nil || s == nil || s.Steps != 4 || len(s.HeldOut) != 2 {
		t.Fatalf("%+v, %v", s, err)
	}
	for _, steps := range []int{1, 2} {
		if s, err := runIn(t, context.Background(), cfg, parts, steps); s != nil || err != nil {
			t.Fatalf("stopped after %d steps: %+v, %v", steps, s, err)
		}
	}
	if s, err = runIn(t, context.Background(), cfg, parts, 0); err != nil || s == nil {
		t.Fatal(s, err)
	}
	if len(s.Format) != 2 || s.Format[1].Messages < 10 || s.Format[1].Kept > 0 { // weights at random know no form
		t.Errorf("free-mode format of a guided run: %v", s.Format)
	}
	want, got := files(t, whole), files(t, parts)
	sameFiles(t, "in parts", got, want)
	steps := func(run string) int {
		text, err := os.ReadFile(filepath.Join(run, "metrics.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "\n")
	}
	if steps(whole) != 4 || steps(parts) != 4 {
		t.Errorf("metrics of %d and %d steps, want 4", steps(whole), steps(parts))
	}
	// What is compared does depend on the run: another seed gives other weights and dialogues.
	other := t.TempDir()
	if _, err := runIn(t, context.Background(), tinyConfig(t, cfg.Model, "seed=2"), other, 0); err != nil {
		t.Fatal(err)
	}
	moved := files(t, other)
	for _, name := range []string{"episodes/step-1.jsonl", "profiles/step-1.jsonl", "checkpoints/step-4/manifest.json"} {
		if moved[name] == want[name] {
			t.Errorf("seed 2 gives the same %s", name)
		}
	}
	if torch.Live() != live {
		t.Errorf("%d tensors are left", torch.Live()-live)
	}
	// A finished run that is run again gives its table, and changes nothing.
	if s, err = runIn(t, context.Background(), cfg, whole, 0); err != nil || s.Steps != 4 {
		t.Errorf("again: %+v, %v", s, err)
	}
	sameFiles(t, "again", files(t, whole), want)
}

// A stop inside a rollout goes back to the last complete step: the curriculum's draws are taken back too.
func TestStopInsideARollout(t *testing.T) {
	cfg := tinyConfig(t, testmodel.Tiny(t, 1), "checkpoint.every=0")
	whole, parts := t.TempDir(), t.TempDir()
	if _, err := runIn(t, context.Background(), cfg, whole, 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // the profiles of step 2 are on disk only when its rollout is over; step 1's tell that step 2 comes
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(parts, "episodes", "step-1.jsonl")); err == nil {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if s, err := runIn(t, ctx, cfg, parts, 0); !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, err := os.Stat(filepath.Join(parts, "checkpoints", "step-4")); err == nil {
		t.Fatal("the run was not stopped early")
	}
	if c, _ := filepath.Glob(filepath.Join(parts, "checkpoints", "step-*")); len(c) != 1 {
		t.Fatalf("checkpoints after the stop: %q", c)
	}
	if _, err := runIn(t, context.Background(), cfg, parts, 0); err != nil {
		t.Fatal(err)
	}
	sameFiles(t, "after a stop", files(t, parts), files(t, whole))
}

func TestRefusals(t *testing.T) {
	model := testmodel.Tiny(t, 1)
	run := t.TempDir()
	if _, err := runIn(t, context.Background(), tinyConfig(t, model), run, 2); err != nil {
		t.Fatal(err)
	}
	// A config that was changed by hand in both places.
	path := filepath.Join(run, "config.toml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "group = 3", "group = 4", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := runIn(t, context.Background(), tinyConfig(t, model, "group=4"), run, 0); err == nil || !strings.Contains(err.Error(), "config.toml has been changed since") {
		t.Errorf("a changed config: %v", err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		cfg  *Config
		want string
	}{
		{"another learning rate", tinyConfig(t, model, "train.optimizer.lr=1e-3"), "train.optimizer.lr was 0.01, is 0.001"},
		{"another model of the same name", tinyConfig(t, model), "is not the one this run began with"},
	} {
		if strings.Contains(c.want, "began with") { // other weights under the old path
			other := testmodel.Tiny(t, 2)
			text, err := os.ReadFile(filepath.Join(other, "model.safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(model, "model.safetensors"), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := runIn(t, context.Background(), c.cfg, run, 0); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := runIn(t, context.Background(), tinyConfig(t, model, "checkpoint.every=1", "name=other", "iterations=3"), run, 0); err == nil ||
		!strings.Contains(err.Error(), "iterations was 2, is 3)") || strings.Contains(err.Error(), "every") {
		t.Errorf("settings that change nothing are no difference: %v", err)
	}
	if _, err := runIn(t, context.Background(), tinyConfig(t, model, "scenario=outbound/en", "rollout.user.context=2000", "rollout.agent.context=2000"), t.TempDir(), 0); err == nil ||
		!strings.Contains(err.Error(), "only scenario nano has rules") {
		t.Errorf("rules where there are none: %v", err)
	}
}

func TestConfigs(t *testing.T) {
	paths, err := filepath.Glob("../../configs/*.toml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"nano.toml", "qwen2.5-14b-8xa100.toml", "smollm2.toml"} {
		if !slices.Contains(paths, "../../configs/"+name) {
			t.Errorf("configs/%s is missing: there are %q", name, paths)
		}
	}
	for _, path := range paths {
		cfg := Default()
		if err := config.Load(path, nil, &cfg); err != nil {
			t.Error(err)
			continue
		}
		if _, err := OpenScenario(cfg.Scenario, cfg.Library); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		// The resolved config reads back as it is.
		copied := filepath.Join(t.TempDir(), "config.toml")
		if err := config.Write(copied, &cfg); err != nil {
			t.Fatal(err)
		}
		var again Config
		if err := config.Load(copied, nil, &again); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(cfg, again) {
			t.Errorf("%s reads back as\n%+v, was\n%+v", path, again, cfg)
		}
	}
}

// The paper's settings, as the reference gives them.
func TestPaperSettings(t *testing.T) {
	cfg := Default()
	if err := config.Load("../../configs/qwen2.5-14b-8xa100.toml", nil, &cfg); err != nil {
		t.Fatal(err)
	}
	type pair struct {
		name      string
		got, want any
	}
	for _, p := range []pair{
		{"iterations", cfg.Iterations, 5}, {"steps per iteration", cfg.Curriculum.Period, 10}, {"profiles", cfg.Curriculum.Profiles, 60},
		{"group", cfg.Group, 8}, {"combinations", cfg.Curriculum.Pool, 200}, {"low", cfg.Curriculum.Low, .4}, {"high", cfg.Curriculum.High, .6},
		{"agent temperature", cfg.Rollout.Agent.Temperature, 1.2}, {"agent top-p", cfg.Rollout.Agent.TopP, .95}, {"agent top-k", cfg.Rollout.Agent.TopK, 0},
		{"user temperature", cfg.Rollout.User.Temperature, .9}, {"user top-p", cfg.Rollout.User.TopP, .95}, {"user top-k", cfg.Rollout.User.TopK, 40},
		{"response", cfg.Rollout.Agent.MaxTokens, 500}, {"context", cfg.Rollout.Agent.Context, 8192},
		{"clip low", cfg.Train.Loss.ClipLow, .2}, {"clip high", cfg.Train.Loss.ClipHigh, .2}, {"KL", cfg.Train.Loss.KL, .001},
		{"entropy", cfg.Train.Loss.Entropy, .001}, {"lr", cfg.Train.Optimizer.LR, 1e-6}, {"beta1", cfg.Train.Optimizer.Beta1, .9},
		{"beta2", cfg.Train.Optimizer.Beta2, .999}, {"weight decay", cfg.Train.Optimizer.WeightDecay, .01},
		{"gradient clip", cfg.Train.Optimizer.MaxGradNorm, 1.}, {"warm-up", cfg.Train.Optimizer.Warmup, .1},
		{"optimizer steps per batch", cfg.Train.MiniBatches * cfg.Train.Epochs, 8}, {"advantage", string(cfg.Train.Scale), "none"},
		{"optimizer steps", cfg.OptimizerSteps(), int64(400)}, // 5 iterations × 10 steps × 8
	} {
		if p.got != p.want {
			t.Errorf("%s is %v, want %v", p.name, p.got, p.want)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	cfg := Default()
	err := config.Parse("a.toml", []byte(`name = "a b"
iterations = 0
group = 1
dtype = "fp16"
[eval]
users = ["frozen", "oracle"]
agent = { temperature = -1.0, top_p = 1.0 }
[curriculum]
profiles = 0
[rollout]
agent = { temperature = 0.0, top_p = 0.0 }
[train.optimizer]
lr = 3.0
[train.loss]
norm = "x"
`), nil, &cfg)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`a.toml:1: name is "a b"`, `a.toml: model: missing`, "a.toml:2: iterations is 0", "a.toml:3: group is 1", `a.toml:4: dtype is "fp16"`,
		`a.toml:6: eval.users: "oracle"`, "a.toml:7: eval.agent.temperature: -1", "a.toml:9: curriculum.profiles: 0",
		"a.toml:11: rollout.agent.temperature: 0", "a.toml:11: rollout.agent.top_p: 0", "a.toml:13: train.optimizer.lr is 3", `a.toml:15: train.loss.norm is "x"`,
	} {
		if !strings.Contains("\n"+err.Error(), "\n"+want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 12 {
		t.Errorf("%d messages, want 12:\n%v", n, err)
	}
}
