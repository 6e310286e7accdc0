package model_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"seadtrain/internal/convert"
	"seadtrain/model"
	"seadtrain/model/chat"
	"seadtrain/model/tokenizer"
	"seadtrain/torch"
)

// SmolLM2-135M-Instruct, from the GGUF to the text: converted, prompted through its template and decoded greedily over
// the cache, it says what transformers says; and its twins say nearly the same. Golden: testdata/smollm2.json by gen_smollm2.py, fp32. The smallest gap
// between the best two logits is 0.018, so rounding cannot change a token; log-probs within 1e-3 show how far it is from that.
func TestSmolLM2SaysWhatTransformersSays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "SmolLM2")
	if err := convert.Convert(context.Background(), "../third_party/models/SmolLM2-135M-Instruct.Q4_1.gguf", dir, convert.Options{}); err != nil {
		t.Fatalf("%v (make test-models fetches it)", err)
	}
	m, err := model.Load(dir, model.Options{DType: torch.F32, MaxPositions: 256})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = torch.Do(m.Close) })
	tok, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	template, err := chat.Load(dir, tok)
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Prompts []struct {
			Text           string
			Prompt, Tokens []int32
			Completion     string
			LogProbs       []float64
		}
	}
	data, err := os.ReadFile("testdata/smollm2.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &golden); err != nil || len(golden.Prompts) != 3 {
		t.Fatalf("%d prompts, %v", len(golden.Prompts), err)
	}
	for _, p := range golden.Prompts {
		prompt, err := template.Render([]chat.Message{{Role: chat.User, Content: p.Text}}, true, chat.Options{})
		if err != nil || !slices.Equal(prompt, p.Prompt) {
			t.Errorf("%q: prompt %v, want %v (%v)", p.Text, prompt, p.Prompt, err)
			continue
		}
		tokens, logProbs := greedy(t, m, prompt, len(p.Tokens))
		if !slices.Equal(tokens, p.Tokens) || tok.Decode(tokens, false) != p.Completion {
			t.Errorf("%q:\n got %q\nwant %q", p.Text, tok.Decode(tokens, false), p.Completion)
			continue
		}
		for i, lp := range logProbs {
			if !(math.Abs(lp-p.LogProbs[i]) <= 1e-3) {
				t.Errorf("%q: log-prob of token %d is %.5f, want %.5f", p.Text, i, lp, p.LogProbs[i])
			}
		}
	}
	// bf16 keeps 8 bits of a weight and int8 7 of the largest in a row; the text is the golden one.
	for _, c := range []struct {
		dt         torch.DType
		mean, same float64
	}{{torch.F32, 0, 1}, {torch.BF16, .02, .97}, {torch.I8, .12, .92}} {
		twin, err := m.Twin(c.dt)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range golden.Prompts {
			q, err := twin.Compare(m, slices.Concat(p.Prompt, p.Tokens))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%v: %v", c.dt, q)
			if !(q.Mean <= c.mean && q.SameGreedy >= c.same-1e-9) || c.dt != torch.F32 && q.Max == 0 || q.Tokens != len(p.Prompt)+len(p.Tokens)-1 {
				t.Errorf("%v, %q: %v; want %v on average at most, and %v the same", c.dt, p.Text, q, c.mean, c.same)
			}
		}
		_ = torch.Do(twin.Close)
	}
}

// greedy decodes n tokens over the cache, and their log-probs.
func greedy(t *testing.T, m *model.Model, prompt []int32, n int) (tokens []int32, logProbs []float64) {
	t.Helper()
	cache, err := model.NewCache(m, 8)
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	rows := &torch.Rows{}
	for range cache.Blocks() {
		b, ok := cache.Alloc()
		if !ok {
			t.Fatal("the cache is full")
		}
		rows.Table = append(rows.Table, b)
	}
	rows.Width = len(rows.Table)
	if err := torch.Do(func() {
		next, at := prompt, int32(0)
		for range n {
			torch.InScope(func() {
				rows.Seq, rows.Pos = make([]int32, len(next)), nil
				for i := range next {
					rows.Pos = append(rows.Pos, at+int32(i))
				}
				all := torch.Data[float32](m.Logits(m.Hidden(next, rows.Pos, cache.View(rows))))
				logits := all[len(all)-m.Config.VocabSize:]
				at += int32(len(next))
				best, sum := slices.Index(logits, slices.Max(logits)), 0.0
				for _, x := range logits {
					sum += math.Exp(float64(x - logits[best]))
				}
				next = []int32{int32(best)}
				tokens, logProbs = append(tokens, int32(best)), append(logProbs, -math.Log(sum))
			})
		}
	}); err != nil {
		t.Fatal(err)
	}
	return tokens, logProbs
}
