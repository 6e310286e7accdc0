package bench

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"seadtrain/internal/precision"
	"seadtrain/internal/testmodel"
	"seadtrain/torch"
)

func tinySizes() Sizes {
	return Sizes{Batches: []int{1, 3}, Context: 40, Tokens: 4, Attention: 40, Shared: 60,
		Dialogues: 4, Turns: 2, Words: 5, Prompt: 40, Scaling: []int{2, 4}, Nano: 8, Stream: 1 << 22}
}

func options(t *testing.T, suite string, against ...string) Options {
	return Options{Suite: suite, Against: against, Model: testmodel.Tiny(t, 1), Precisions: []string{"fp32"}, Threads: 1, Budget: time.Minute,
		Root: t.TempDir(), Sizes: tinySizes(), Say: t.Logf}
}

func names(r *Report) (out []string) {
	for _, row := range r.Rows {
		out = append(out, row.Name)
	}
	return out
}

// Our side of everything, on a tiny model: every row has its number, and the profile sums to 100 %.
func TestOwnRows(t *testing.T) {
	r, err := Run(context.Background(), options(t, "all"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bandwidth", "gemm", "linear1", "linear3", "decode1_of_bandwidth", "decode3_of_bandwidth", "decode3_attention", "prefill_of_gemm",
		"rollout", "memory_of_plan", "shared_prompt", "shared_prompt_time", "scaling_dialogues", "nano_rollout"} {
		if !slices.Contains(names(r), name) {
			t.Errorf("no row %s in %q", name, names(r))
		}
	}
	profile := map[string]float64{}
	for _, row := range r.Rows {
		if !(row.Value > 0) || row.Error != "" {
			if row.Name != "memory_of_plan" { // so little memory that nothing grows
				t.Errorf("%+v", row)
			}
		}
		if name, _, part := strings.Cut(row.Name, ": "); part {
			profile[name] += float64(row.Value)
		}
	}
	for name, sum := range profile {
		if math.Abs(sum-100) > 1e-9 {
			t.Errorf("%s sums to %v %%", name, sum)
		}
	}
	if len(profile) != 2 {
		t.Errorf("%d profiles", len(profile))
	}
	// Alone, each of the 4 dialogues has the blocks of 60 tokens and one drawn; together they have the prompt's once, and each
	// what is not a full block of its first 59.
	alone := blocksFor(61)
	want := float64(alone+4*(alone-59/torch.BlockSize)) / float64(4*alone)
	i := slices.Index(names(r), "shared_prompt")
	if got := float64(r.Rows[i].Ratio); math.Abs(got-want) > 1e-4 {
		t.Errorf("a shared prompt takes %v of the blocks: want %v", got, want)
	}
}

// peerRoot is a clone in which a peer is the stand-in, which draws what our engine draws.
func peerRoot(t *testing.T, o *Options, setup string) {
	t.Helper()
	peers, err := filepath.Abs("peers")
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs(filepath.Join("testdata", "standin.py"))
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"scripts/interop-venv.sh":         "#!/bin/sh\n" + setup,
		"build/venv-interop/bin/python":   "#!/bin/sh\nexec python3 " + script,
		"build/venv-interop/bin/fromhere": "",
	} {
		path := filepath.Join(o.Root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	e, err := OpenEngine(o.Model, "fp32")
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	text, err := ReadText(e.Bundle)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if _, err := e.Prompts(ctx, text.Prompts(3, 60), agreeTokens); err != nil {
		t.Fatal(err)
	}
	took, err := e.Decode(ctx, 3, agreeTokens)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := json.Marshal(took.IDs)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(o.Root, "ids.json")
	if err := os.WriteFile(file, ids, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("IDS", file)
	t.Setenv("SERVE", peers)
}

func TestAgainst(t *testing.T) {
	o := options(t, "rollout", "hf")
	peerRoot(t, &o, "exit 0")
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	// The stand-in takes 10 s for whatever it plays: 4 dialogues × 2 turns × 10 tokens are 8 tokens/s.
	for _, name := range []string{"rollout_vs_hf", "rollout_vs_hf_best", "nano_rollout_vs_hf"} {
		i := slices.Index(names(r), name)
		if i < 0 {
			t.Fatalf("no row %s in %q", name, names(r))
		}
		row := r.Rows[i]
		if row.Error != "" || row.Peer != "hf (1.0)" || !(row.Ratio > 0) || row.Alternations < 1 {
			t.Errorf("%+v", row)
		}
		if name != "nano_rollout_vs_hf" && (row.PeerValue != 8 || !slices.Contains(row.Notes, "greedy tokens agree for 40, 40, 40 of 40")) {
			t.Errorf("%+v", row)
		}
	}
}

// A peer that cannot be had, or is another model, is a row with the reason; the rest is measured.
func TestAgainstNobody(t *testing.T) {
	for _, c := range []struct{ name, setup, ids, want string }{
		{"install", "echo working; echo 'interop-venv: error: the disk is full' >&2; exit 1", "", "interop-venv.sh: interop-venv: error: the disk is full (exit status 1)"},
		{"another model", "exit 0", "[[-1], [-1], [-1]]", "greedy tokens agree for 0, 0, 0 of 40"},
		{"ends", "exit 0", "x", "decode: JSONDecodeError"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options(t, "prefill", "hf")
			peerRoot(t, &o, c.setup)
			if c.ids != "" {
				if err := os.WriteFile(os.Getenv("IDS"), []byte(c.ids), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			r, err := Run(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Rows) != 2 || r.Rows[0].Error != "" || r.Rows[1].Name != "prefill_vs_hf" || !strings.Contains(r.Rows[1].Error, c.want) {
				t.Errorf("%+v", r.Rows)
			}
		})
	}
}

// What no longer fits into the budget says so; a stop keeps the rows so far.
func TestBudgetAndStop(t *testing.T) {
	o := options(t, "decode")
	o.Budget = time.Nanosecond
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Rows {
		if !strings.Contains(row.Error, "the budget of 1ns is used up") {
			t.Errorf("%+v", row)
		}
	}
	if len(r.Rows) != 3 {
		t.Errorf("%q", names(r))
	}
	ctx, cancel := context.WithCancel(context.Background())
	o = options(t, "all")
	o.Say = func(format string, args ...any) {
		if args[0] == "prefill_of_gemm" {
			cancel()
		}
	}
	r, err = Run(ctx, o)
	if err != context.Canceled || !slices.Contains(names(r), "decode1_of_bandwidth") || slices.Contains(names(r), "prefill_of_gemm") {
		t.Errorf("%v, %q", err, names(r))
	}
}

// Without --precision, what the processor is bad at is named with the reason.
func TestPrecisions(t *testing.T) {
	o := options(t, "decode", "openvino")
	o.Precisions, o.Budget = nil, time.Nanosecond
	best, _, _ := precision.Choose("auto")
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, row := range r.Rows {
		seen[row.Precision] = true
		if slow := row.Precision == "bf16" && best == torch.F32; slow != strings.Contains(row.Error, "left out") {
			t.Errorf("%+v", row)
		}
	}
	if len(seen) != 3 {
		t.Errorf("%v", seen)
	}
}

// Narrower weights are measured by their own bytes, and for what they cost; rounding is seen, and is no catastrophe.
func TestNarrowWeights(t *testing.T) {
	o := options(t, "decode")
	o.Precisions = []string{"fp32", "bf16", "int8"}
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	bytes, off, same := map[string]int64{}, map[string]float64{}, map[string]float64{}
	for _, p := range o.Precisions {
		e, err := OpenEngine(o.Model, p)
		if err != nil {
			t.Fatal(err)
		}
		if err := torch.Do(func() { bytes[p] = weightBytes(e.Model) }); err != nil {
			t.Fatal(err)
		}
		e.Close()
	}
	for _, row := range r.Rows {
		if row.Error != "" {
			t.Errorf("%+v", row)
		}
		switch row.Name {
		case "log_prob_error":
			if _, twice := off[row.Precision]; twice {
				t.Errorf("%s is there twice", row.Name)
			}
			off[row.Precision] = float64(row.Value)
		case "greedy_same":
			same[row.Precision] = float64(row.Value)
		}
	}
	if !(off["bf16"] > 0 && off["bf16"] < off["int8"] && off["int8"] < .1) || len(off) != 2 || !(same["int8"] > 80) {
		t.Errorf("errors %v, the same %v", off, same)
	}
	// norms stay in fp32, and int8 rows have scales: a little more than half and a quarter
	for p, share := range map[string]float64{"bf16": .5, "int8": .25} {
		if got := float64(bytes[p]) / float64(bytes["fp32"]); !(got > share && got < share+.05) {
			t.Errorf("%s takes %v of fp32's bytes", p, got)
		}
	}
}
