package train

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seadtrain/dialogue"
	"seadtrain/model"
	"seadtrain/torch"
)

func fileSum(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func TestSchedule(t *testing.T) {
	for _, c := range []struct {
		schedule    string
		warmup, min float64
		step, total int64
		want        float64
	}{
		{"constant", 0, 0, 1, 50, 1},
		{"constant", 0.1, 0, 1, 50, 1. / 5}, // ceil(0.1·50) = 5 steps of warm-up: 1/5, 2/5, … 1
		{"constant", 0.1, 0, 4, 50, 4. / 5},
		{"constant", 0.1, 0, 5, 50, 1},
		{"constant", 0.1, 0, 6, 50, 1}, // once per run: what follows never warms up again
		{"constant", 0.1, 0, 50, 50, 1},
		{"constant", 0.1, 0, 1, 1, 1}, // ceil(0.1·1) = 1 step, already at the peak
		{"constant", 0.9, 0, 1, 3, 1. / 3},
		{"linear", 0.2, 0.1, 2, 10, 1},
		{"linear", 0.2, 0.1, 6, 10, 1 - .9*4/8}, // half of the way from 1 to 0.1 over steps 3 … 10
		{"linear", 0.2, 0.1, 10, 10, 0.1},
		{"linear", 0, 0, 1, 1, 0}, // warm-up off and one step: the end is the first step
		{"linear", 0, 0.1, 12, 10, 0.1},
		{"cosine", 0, 0, 5, 10, 0.5},
		{"cosine", 0, 0.2, 10, 10, 0.2},
		{"cosine", 0.5, 0, 6, 10, (1 + math.Cos(math.Pi/5)) / 2},
	} {
		o := OptimizerConfig{LR: 2, Warmup: c.warmup, Schedule: c.schedule, MinLR: 2 * c.min}
		if got := o.Rate(c.step, c.total); !(math.Abs(got-2*c.want) <= 1e-12) {
			t.Errorf("%s, warm-up %v, step %d of %d: %v, want %v", c.schedule, c.warmup, c.step, c.total, got, 2*c.want)
		}
	}
	for total := range int64(200) { // the first step of a run never has rate 0
		for _, w := range []float64{0, 1e-9, 0.01, 0.1, 0.5, 0.99} {
			o := OptimizerConfig{LR: 1, Warmup: w, Schedule: "constant"}
			if o.Rate(1, total+1) <= 0 {
				t.Fatalf("warm-up %v of %d steps starts at 0", w, total+1)
			}
		}
	}
}

func TestClippingEqualsTorch(t *testing.T) {
	// clip_grad_norm_: every gradient times min(1, limit/(norm + 1e-6)); norm = √Σg² over all parameters.
	for _, limit := range []float64{0, 0.25, 1e6} {
		tr := trainerFor(t, func(c *Config) { c.Optimizer.MaxGradNorm = limit })
		_, free := grads(t, trainerFor(t, nil), []*dialogue.Episode{plain("a", 0, 1, 9, 3), plain("b", 0, 0, 14, 3)})
		met, got := grads(t, tr, []*dialogue.Episode{plain("a", 0, 1, 9, 3), plain("b", 0, 0, 14, 3)})
		sum := 0.0
		for _, g := range free {
			for _, x := range g {
				sum += float64(x) * float64(x)
			}
		}
		norm := math.Sqrt(sum)
		if !(math.Abs(met.GradNorm-norm) <= 1e-6*norm) || norm < 0.5 {
			t.Errorf("norm %v, want %v, and above the limit", met.GradNorm, norm)
		}
		scale := 1.0
		if limit == 0.25 {
			scale = limit / (norm + 1e-6)
		}
		for name := range free {
			for i := range free[name] {
				free[name][i] *= float32(scale)
			}
			if d := apart(got[name], free[name]); !(d <= 1e-6) {
				t.Errorf("limit %v: the gradient of %s is off by %.2g", limit, name, d)
			}
		}
	}
}

// saved is a checkpoint as a run makes one: the model's directory and the optimizer's state.
func saved(t *testing.T, m *model.Model, o *Optimizer) string {
	t.Helper()
	dir := t.TempDir()
	if err := m.Save(dir, model.SaveOptions{DType: m.DType}); err != nil {
		t.Fatal(err)
	}
	sub := filepath.Join(dir, "trainer")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := o.Save(sub); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTrainerResumesBitForBit(t *testing.T) {
	for _, dt := range []torch.DType{torch.F32, torch.BF16} {
		g := stepGoldens(t)[0]
		c := g.config()
		c.Optimizer = DefaultOptimizer()
		c.Optimizer.LR, c.MiniBatches, c.Epochs, c.MicroTokens = 1e-3, 2, 2, 60
		run := func(tr *Trainer, from, to uint64) {
			for s := from; s < to; s++ {
				if _, err := tr.Step(context.Background(), g.episodes(), s); err != nil {
					t.Fatal(err)
				}
			}
		}
		o := model.Options{DType: dt}
		whole, half := g.trainer(t, c, o), g.trainer(t, c, o)
		run(whole, 0, 4)
		run(half, 0, 2)
		dir := saved(t, half.Policy, half.Optimizer)
		policy, err := model.Load(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		again, err := NewTrainer(c, policy, half.Reference, half.Sets, nil, 10)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = torch.Do(func() { again.Close(); policy.Close() }) })
		if err := again.Optimizer.Load(filepath.Join(dir, "trainer")); err != nil {
			t.Fatal(err)
		}
		if a, b := checksum(t, policy), checksum(t, half.Policy); a != b {
			t.Errorf("%s: loading changes the weights", dt)
		}
		run(again, 2, 4)
		sum := func(tr *Trainer) string {
			d := t.TempDir()
			if err := tr.Optimizer.Save(d); err != nil {
				t.Fatal(err)
			}
			return checksum(t, tr.Policy) + fileSum(t, tr.Optimizer.file(d))
		}
		if sum(again) != sum(whole) {
			t.Errorf("%s: 2 + 2 steps are not 4", dt)
		}
		if sum(half) == sum(whole) || again.Optimizer.Step != 16 { // 4 steps of 2 epochs of 2 mini-batches
			t.Errorf("%s: nothing was trained in between, or %d steps", dt, again.Optimizer.Step)
		}
	}
}

func TestSFTResumesBitForBit(t *testing.T) {
	samples := randomSamples(12, 60, 96)
	c := DefaultSFT()
	c.Epochs, c.BatchTokens, c.MicroTokens, c.Optimizer.LR, c.Seed = 2, 180, 130, 1e-3, 3
	start := func(dir string) *SFT {
		m, err := model.Load(dir, model.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewSFT(c, m, samples)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = torch.Do(func() { s.Close(); m.Close() }) })
		return s
	}
	run := func(s *SFT, n int64) {
		for s.Done() < n {
			if _, err := s.Step(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	}
	whole := start(tinyDir + "/qwen3_tied")
	run(whole, whole.Steps())
	half := start(tinyDir + "/qwen3_tied")
	run(half, 3)
	dir := saved(t, half.Model, half.Optimizer)
	again := start(dir)
	if err := again.Optimizer.Load(filepath.Join(dir, "trainer")); err != nil {
		t.Fatal(err)
	}
	run(again, again.Steps())
	if checksum(t, again.Model) != checksum(t, whole.Model) || checksum(t, half.Model) == checksum(t, whole.Model) || whole.Steps() != 8 {
		t.Errorf("3 + 5 steps are not %d", whole.Steps())
	}
	if _, err := again.Step(context.Background()); err == nil || !strings.Contains(err.Error(), "all 8 steps are done") {
		t.Errorf("a step too many: %v", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	tr := trainerFor(t, nil)
	step(t, tr, plain("a", 0, 1, 9, 3), plain("b", 0, 0, 9, 3))
	good := t.TempDir()
	if err := tr.Optimizer.Save(good); err != nil {
		t.Fatal(err)
	}
	other, err := NewSFT(DefaultSFT(), load(t, "qwen2_untied"), randomSamples(1, 60, 96))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = torch.Do(other.Close) }()
	untied := t.TempDir()
	if err := other.Optimizer.Save(untied); err != nil {
		t.Fatal(err)
	}
	if err := other.Optimizer.Load(good); err == nil || !strings.Contains(err.Error(), `tensor "exp_avg.lm_head" is missing`) {
		t.Errorf("the state of a tied model: %v", err)
	}
	b, err := os.ReadFile(filepath.Join(good, "optimizer-0.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, old, new, want string
	}{
		{"cut off", "", "", "optimizer-0.safetensors"},
		{"another number of ranks", `"ranks":"1"`, `"ranks":"2"`, `saved by "2" tensor-parallel ranks, this run has 1`},
		{"no step", `"step":"1"`, `"step":"x"`, `step is "x"`},
		{"no file", "", "", "no such file"},
	} {
		dir := t.TempDir()
		bad := []byte(strings.Replace(string(b), c.old, c.new, 1))
		if c.name == "cut off" {
			bad = b[:len(b)-1]
		}
		if c.name != "no file" {
			if err := os.WriteFile(filepath.Join(dir, "optimizer-0.safetensors"), bad, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		before := checksum(t, tr.Policy)
		if err := tr.Optimizer.Load(dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if checksum(t, tr.Policy) != before || tr.Optimizer.Step != 1 {
			t.Errorf("%s: weights changed", c.name)
		}
	}
}

// Weights in bf16 are always the rounded masters, and steps too small for bf16 add up in the masters.
func TestMastersCollectSmallSteps(t *testing.T) {
	g := stepGoldens(t)[0]
	c := g.config()
	c.Loss = LossConfig{ClipLow: 0.2, ClipHigh: 0.2, Norm: "token"}
	c.Optimizer.LR, c.Optimizer.Warmup, c.Optimizer.WeightDecay = 1e-4, 0, 0
	tr := g.trainer(t, c, model.Options{DType: torch.BF16})
	first := byName(t, tr.Policy, weights(tr.Policy))
	moved := func() (n, of int) {
		for name, w := range byName(t, tr.Policy, weights(tr.Policy)) {
			master := byName(t, tr.Policy, tr.Optimizer.Masters())[name]
			for i := range w {
				if float32(math.Float32frombits(bf16(master[i]))) != w[i] {
					t.Fatalf("%s[%d]: weight %v, master %v", name, i, w[i], master[i])
				}
				if w[i] != first[name][i] {
					n++
				}
				of++
			}
		}
		return n, of
	}
	for i := range 30 {
		step(t, tr, plain("a", 0, 1, 9, 3), plain("b", 0, 0, 14, 3))
		if n, of := moved(); i == 0 && n > of/2 {
			t.Fatalf("%d of %d weights moved at once: the rate does not test anything", n, of)
		} else if i == 29 && n < of/2 {
			t.Errorf("only %d of %d weights moved in 30 steps", n, of)
		}
	}
}

func weights(m *model.Model) []*torch.Tensor {
	var out []*torch.Tensor
	for _, l := range m.Leaves() {
		out = append(out, l.Tensor)
	}
	return out
}

// bf16 rounds to the nearest bfloat16, ties to even, as fp32 bits.
func bf16(x float32) uint32 {
	b := math.Float32bits(x)
	return (b + 0x7fff + b>>16&1) &^ 0xffff
}

func TestConfigsReportEverything(t *testing.T) {
	c, s := DefaultConfig(), DefaultSFT()
	if err := errorsOf(c.Validate(), s.Validate()); err != "" {
		t.Fatal(err)
	}
	c = Config{Scale: "std", Recompute: "all", Optimizer: OptimizerConfig{LR: -1, Beta1: 1, Schedule: "step", Warmup: 1, MinLR: 2},
		Loss: LossConfig{ClipLow: 2, ClipHigh: -1, KL: math.NaN(), Entropy: math.Inf(1), Norm: "fixed"}}
	err := fmt.Sprint(c.Validate())
	for _, want := range []string{"lr is -1", "beta1 is 1", "eps is 0", "warmup is 1", "min_lr is 2: want 0 to 1\n", `schedule is "step"`, "clip_low is 2", "clip_high is -1",
		"kl is NaN", "entropy is +Inf", `norm "fixed" needs`, "mini_batches is 0", "epochs is 0", "micro_batch_tokens is 0", "head_rows is 0", `recompute is "all"`, `advantage scale is "std"`} {
		if !strings.Contains(err, want) {
			t.Errorf("%q is not reported in: %s", want, err)
		}
	}
	c, s = DefaultConfig(), DefaultSFT()
	c.MiniBatches, c.Epochs, c.MicroTokens, c.HeadRows = 1<<40, 1<<40, 1<<40, 1<<40
	s.Epochs, s.BatchTokens, s.MicroTokens, s.HeadRows = 1<<40, 1<<40, 1<<40, 1<<40
	if n := strings.Count(errorsOf(c.Validate(), s.Validate()), "1099511627776: want 1 to"); n != 8 { // what sizes memory has an upper bound
		t.Errorf("%d of 8 counts have an upper bound", n)
	}
	s = DefaultSFT()
	s.Epochs = maxEpochs
	many := slices.Repeat([]*Sample{{ID: "x", Temperature: 1, Tokens: []int32{1, 2}, Loss: []bool{false, true}}}, maxPlanned/maxEpochs+1) // the order of the whole run would take gigabytes
	if _, err := NewSFT(s, load(t, "qwen2_untied"), many); err == nil || !strings.Contains(err.Error(), "1000 epochs of 268436 conversations: want at most 268435456") {
		t.Errorf("too many epochs of much data: %v", err)
	}
	// A rate that is none has one message: nothing is measured by it.
	c = DefaultConfig()
	c.Optimizer.LR = math.NaN()
	if err := fmt.Sprint(c.Validate()); err != "lr is NaN: want 0 to 1" {
		t.Errorf("lr = nan: %s", err)
	}
}

func errorsOf(errs ...error) (s string) {
	for _, e := range errs {
		if e != nil {
			s += e.Error()
		}
	}
	return s
}
