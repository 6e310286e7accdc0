package score

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"seadtrain/internal/testmodel"
	"seadtrain/model"
	"seadtrain/model/tokenizer"
	"seadtrain/torch"
)

func TestScore(t *testing.T) {
	dir := testmodel.Tiny(t, 1)
	m, err := model.Load(dir, model.Options{DType: torch.F32})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tok, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	in := `{"ids": [5, 6, 7, 8]}
{"ids": [9]}
{"ids": []}
{"text": "Hello<|im_end|>"}
{"ids": [5, 6, 7, 8, 9, 10]}
`
	seqs, err := Read(strings.NewReader(in), "in", m, func() (*tokenizer.Tokenizer, error) { return tok, nil })
	if err != nil {
		t.Fatal(err)
	}
	text := seqs[3]
	if end, _ := tok.ID("<|im_end|>"); text[len(text)-1] != end {
		t.Errorf("special tokens in a text are recognised, but %v ends otherwise", text)
	}
	var first string
	for _, batch := range []int{1, 7, 1000} { // how lines are packed changes nothing
		var out bytes.Buffer
		if err := Write(context.Background(), &out, m, seqs, batch); err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = out.String()
		}
		compare(t, m, seqs, out.String())
	}
	if !strings.HasPrefix(first, `{"logprobs":[null,-`) || !strings.Contains(first, "\n{\"logprobs\":[null]}\n{\"logprobs\":[]}\n") {
		t.Errorf("output\n%s", first)
	}
}

// compare checks against log-softmax over the full logits, in float64.
func compare(t *testing.T, m *model.Model, seqs [][]int32, out string) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(out))
	for n, ids := range seqs {
		var got struct{ LogProbs []*float64 }
		if err := dec.Decode(&got); err != nil {
			t.Fatal(err)
		}
		if len(got.LogProbs) != len(ids) {
			t.Fatalf("line %d: %d numbers for %d tokens", n+1, len(got.LogProbs), len(ids))
		}
		if len(ids) < 2 {
			continue
		}
		pos := make([]int32, len(ids))
		for i := range pos {
			pos[i] = int32(i)
		}
		var logits []float64
		v := m.Config.VocabSize
		if err := torch.Do(func() {
			logits = torch.Data[float64](m.Logits(m.Hidden(ids, pos, model.Packed{Cu: []int64{0, int64(len(ids))}})))
		}); err != nil {
			t.Fatal(err)
		}
		for i := 1; i < len(ids); i++ {
			row := logits[(i-1)*v : i*v]
			sum := 0.0
			for _, x := range row {
				sum += math.Exp(x)
			}
			if want := row[ids[i]] - math.Log(sum); got.LogProbs[i] == nil || !(math.Abs(*got.LogProbs[i]-want) <= 1e-5) {
				t.Errorf("line %d, token %d: %v, want %v", n+1, i, got.LogProbs[i], want)
			}
		}
	}
}

// Nothing is computed, let alone printed, before every line is known to be good.
func TestReadErrors(t *testing.T) {
	m, err := model.Load(testmodel.Tiny(t, 1), model.Options{DType: torch.F32, MaxPositions: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	none := func() (*tokenizer.Tokenizer, error) { return nil, errors.New("no tokenizer here") }
	for _, c := range []struct{ in, want string }{
		{"{\"ids\":[1]}\n{\"ids\":[1,-2]}", "in:2: "},
		{`{"ids":[1,2,3,4,5,6,7,8,9]}`, "in:1: 9 tokens exceed the model's context of 8"},
		{`{"ids":[1.5]}`, "in:1: want {\"ids\""},
		{`{"ids":[1],"text":"a"}`, `in:1: want either "ids" or "text"`},
		{`{}`, `in:1: want either "ids" or "text"`},
		{`{"text":"a"}`, "in:1: no tokenizer here"},
		{`[1]`, "in:1: want {\"ids\""},
	} {
		if _, err := Read(strings.NewReader(c.in), "in", m, none); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.in, err, c.want)
		}
	}
}
