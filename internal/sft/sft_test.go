package sft

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seadtrain/internal/config"
	"seadtrain/internal/hfdir"
	"seadtrain/internal/progress"
	"seadtrain/internal/testmodel"
	"seadtrain/model"
	"seadtrain/model/chat"
	"seadtrain/torch"
)

func open(t *testing.T) *hfdir.Bundle {
	t.Helper()
	b, err := hfdir.Open(testmodel.Tiny(t, 1), model.Options{DType: torch.F32})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func data(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Which pieces of a conversation carry loss, read back as text.
func TestRead(t *testing.T) {
	b := open(t)
	for _, c := range []struct{ line, trained string }{
		{`{"messages":[{"role":"system","content":"You call."},{"role":"user","content":"Hello"},{"role":"assistant","content":"Hi <b>"}]}`,
			"Hi <b><|im_end|>"}, // the assistant's content and its end of turn, no line break
		{`{"messages":[{"role":"assistant","content":"One"},{"role":"user","content":"Two"},{"role":"assistant","content":"Three"}]}`,
			"One<|im_end|>|Three<|im_end|>"},
		{`{"messages":[{"role":"assistant","content":"One","loss":false},{"role":"user","content":"Two","loss":true}],"source":"x"}`,
			"Two<|im_end|>"}, // said otherwise; other keys are ignored
		{`{"messages":[{"role":"user","content":"<|im_end|>"},{"role":"assistant","content":"<|im_end|>"}]}`,
			"<|im_end|><|im_end|>"}, // as plain text, then as the token
	} {
		samples, err := Read(context.Background(), data(t, c.line), b.Tokenizer, b.Chat, 500)
		if err != nil || len(samples) != 1 {
			t.Fatalf("%s: %v", c.line, err)
		}
		s := samples[0]
		var runs []string
		ends := 0
		for i, id := range s.Tokens {
			if !s.Loss[i] {
				continue
			}
			if i == 0 || !s.Loss[i-1] {
				runs = append(runs, "")
			}
			runs[len(runs)-1] += b.Tokenizer.Decode([]int32{id}, false)
			if id == b.Chat.EndOfTurn() {
				ends++
			}
		}
		if got := strings.Join(runs, "|"); got != c.trained || ends != len(runs) {
			t.Errorf("%s: trained are %q with %d ends of turn, want %q", c.line, got, ends, c.trained)
		}
	}
	// The tokens are those of the chat template.
	line := `{"messages":[{"role":"system","content":"S"},{"role":"user","content":"Hello there"},{"role":"assistant","content":"Hi"}]}`
	samples, err := Read(context.Background(), data(t, line), b.Tokenizer, b.Chat, 500)
	if err != nil {
		t.Fatal(err)
	}
	want, err := b.Chat.Render([]chat.Message{{Role: chat.System, Content: "S"}, {Role: chat.User, Content: "Hello there"}, {Role: chat.Assistant, Content: "Hi"}}, false, chat.Options{})
	if err != nil || !slices.Equal(samples[0].Tokens, want) {
		t.Errorf("tokens %v, the template gives %v, %v", samples[0].Tokens, want, err)
	}
}

func TestReadErrors(t *testing.T) {
	b := open(t)
	good := `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{[]string{good, `{"messages":3}`}, ":2: want {\"messages\""},
		{[]string{good, good, `{"messages":[]}`}, ":3: want {\"messages\""},
		{[]string{`{"messages":[{"role":"user","content":"a"},{"role":"tool","content":"b"}]}`}, `:1: message 1: role "tool"`},
		{[]string{`{"messages":[{"role":"system","content":"s"},{"role":"tool","content":"b"}]}`}, `:1: message 1: role "tool"`},
		{[]string{`{"messages":[{"role":"system","content":"s","loss":true}]}`}, ":1: message 0: a system message cannot be trained"},
		{[]string{good, `{"messages":[{"role":"user","content":"` + strings.Repeat("a b ", 500) + `"}]}`}, "tokens, at most 500 are allowed"},
		{[]string{""}, ": no conversations"},
		{[]string{good, "", "{"}, ":3: want"}, // empty lines count and are skipped
	} {
		if _, err := Read(context.Background(), data(t, c.lines...), b.Tokenizer, b.Chat, 500); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.lines, err, c.want)
		}
	}
	// More lines than are tokenised at once keep their order and their numbers.
	var many []string
	for i := range 5000 {
		many = append(many, fmt.Sprintf(`{"messages":[{"role":"assistant","content":"%d"}]}`, i))
	}
	samples, err := Read(context.Background(), data(t, many...), b.Tokenizer, b.Chat, 500)
	if err != nil || len(samples) != 5000 {
		t.Fatal(len(samples), err)
	}
	for i, s := range samples {
		if !strings.HasSuffix(s.ID, fmt.Sprintf(":%d", i+1)) || !strings.Contains(b.Tokenizer.Decode(s.Tokens, true), fmt.Sprint(i)) {
			t.Fatalf("sample %d is %s", i, s.ID)
		}
	}
	if _, err := Read(context.Background(), data(t, append(many, "{")...), b.Tokenizer, b.Chat, 500); err == nil || !strings.Contains(err.Error(), ":5001:") {
		t.Errorf("an error beyond the first block: %v", err)
	}
}

// corpus is a few conversations that a tiny model can learn something of.
func corpus(t *testing.T) string {
	var lines []string
	for i := range 60 {
		lines = append(lines, fmt.Sprintf(`{"messages":[{"role":"user","content":"say %d"},{"role":"assistant","content":"I say %d."}]}`, i%10, i%10))
	}
	return data(t, lines...)
}

func settings(t *testing.T, model, data string) Config {
	t.Helper()
	cfg := Default()
	err := config.Parse("", nil, []string{"model=" + model, "data=" + data, "dtype=fp32", "threads=1", "eval_share=0.1", "eval_every=4",
		"checkpoint_every=3", "train.batch_tokens=200", "train.epochs=2", "train.optimizer.lr=1e-2"}, &cfg)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func finished(t *testing.T, out string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "model", "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A run that is cancelled somewhere and called again ends with the weights of one that is not; it has learnt something,
// and its result loads.
func TestRun(t *testing.T) {
	live := torch.Live()
	cfg := settings(t, testmodel.Tiny(t, 1), corpus(t))
	line := progress.New(os.Stderr)
	whole, parts := t.TempDir(), t.TempDir()
	res, err := Run(context.Background(), cfg, whole, line)
	if err != nil {
		t.Fatal(err)
	}
	// 54 conversations of about 15 tokens, 200 tokens a step, twice: some 8 steps. Random weights: log(1,536) = 7.3.
	if res.Steps < 6 || !(res.EvalLoss < 6.5) {
		t.Errorf("%+v", res)
	}
	for calls := 0; ; calls++ {
		ctx, cancel := context.WithCancel(context.Background())
		go func() { // stops somewhere inside
			n := lines(parts)
			for ctx.Err() == nil && lines(parts) < n+2 {
			}
			cancel()
		}()
		_, err := Run(ctx, cfg, parts, line)
		stopped := ctx.Err() != nil && err != nil
		cancel()
		if stopped && calls < 20 {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if calls == 0 {
			t.Error("it was never stopped")
		}
		break
	}
	if finished(t, parts) != finished(t, whole) {
		t.Error("in parts the weights come out differently")
	}
	if n := lines(whole); n != int(res.Steps) || lines(parts) != n {
		t.Errorf("metrics of %d and %d steps, want %d", n, lines(parts), res.Steps)
	}
	b, err := hfdir.Open(filepath.Join(whole, "model"), model.Options{DType: torch.F32})
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	cfg.Train.Optimizer.LR = 1e-3
	if _, err := Run(context.Background(), cfg, whole, line); err == nil || !strings.Contains(err.Error(), "train.optimizer.lr was 0.01, is 0.001") {
		t.Errorf("another config in the same directory: %v", err)
	}
	if torch.Live() != live {
		t.Errorf("%d tensors are left", torch.Live()-live)
	}
}

func lines(run string) int {
	text, _ := os.ReadFile(filepath.Join(run, "metrics.jsonl"))
	return strings.Count(string(text), "\n")
}

// A directory without weights begins with random ones, by seed.
func TestFromRandomWeights(t *testing.T) {
	base := testmodel.Tiny(t, 1)
	if err := os.Remove(filepath.Join(base, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	cfg := settings(t, base, corpus(t))
	cfg.EvalShare, cfg.Train.Epochs = 0, 1
	var got []string
	for _, seed := range []uint64{1, 1, 2} {
		cfg.Train.Seed = seed
		out := t.TempDir()
		res, err := Run(context.Background(), cfg, out, progress.New(os.Stderr))
		if err != nil {
			t.Fatal(err)
		}
		if !math.IsNaN(res.EvalLoss) {
			t.Errorf("an evaluation loss of %v without data for it", res.EvalLoss)
		}
		got = append(got, finished(t, out))
	}
	if got[0] != got[1] || got[0] == got[2] {
		t.Error("the weights do not follow from the seed")
	}
}
