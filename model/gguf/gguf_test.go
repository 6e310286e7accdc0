package gguf

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seadtrain/model/safetensors"
)

func open(t *testing.T, path string) *File {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// Golden: testdata/dequant.safetensors by gen_gguf.py. Equal bit for bit.
func TestDequantiseEqualsTheGGUFPackage(t *testing.T) {
	s, err := safetensors.Open("testdata/dequant.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, typ := range []Type{F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K, Q6_K} {
		raw, golden := s.Get(typ.String()+".raw"), s.Get(typ.String()+".values")
		if raw == nil || golden == nil {
			t.Fatalf("%s: no golden", typ)
		}
		want, err := golden.Float32s()
		if err != nil || len(want) != 6*256 {
			t.Fatalf("%s: %d values, %v", typ, len(want), err)
		}
		x := Tensor{Name: "x", Type: typ, Shape: []int{6, 256}, Data: raw.Data}
		got, err := x.Rows(0, 6)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) && !(got[i] == 0 && want[i] == 0) {
				t.Fatalf("%s: element %d is %v, want %v", typ, i, got[i], want[i])
			}
		}
		if part, err := x.Rows(2, 3); err != nil || !slices.Equal(part, got[512:768]) {
			t.Errorf("%s: row 2 alone differs (%v)", typ, err)
		}
		if _, err := x.Rows(5, 7); err == nil {
			t.Errorf("%s: rows 5 to 7 of 6: no error", typ)
		}
	}
	// The same quantiser too: Q8_0 of the golden's own values gives the golden's bytes again.
	raw := s.Get("Q8_0.raw")
	values, _ := s.Get("F32.values").Float32s()
	if got := quantiseQ8_0(nil, values); !slices.Equal(got, raw.Data) {
		t.Error("Q8_0 blocks differ from the gguf package's")
	}
}

// testdata/*.gguf are two of the tiny models as llama.cpp's converter would write them: the weights come back under
// Hugging Face's names and in its row order, bit for bit.
func TestWeightsEqualHuggingFaces(t *testing.T) {
	for arch, name := range map[string]string{"llama": "llama_tied", "qwen2": "qwen2_untied"} {
		f := open(t, "testdata/"+arch+".gguf")
		hf, err := safetensors.Open("../testdata/tiny/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer hf.Close()
		weights, err := f.Weights()
		if err != nil || len(weights) != len(hf.Names()) {
			t.Fatalf("%s: %d weights, want %d (%v)", arch, len(weights), len(hf.Names()), err)
		}
		for _, w := range weights {
			want := hf.Get(w.Name)
			if want == nil || !slices.Equal(want.Shape, w.Shape) {
				t.Errorf("%s: %s %v has no counterpart", arch, w.Name, w.Shape)
				continue
			}
			all, _ := want.Float32s()
			got, err := w.Rows(0, w.Shape[0])
			if err != nil || !slices.Equal(got, all) {
				t.Errorf("%s: %s differs (%v)", arch, w.Name, err)
			}
			n := w.Shape[0]
			part, err := w.Rows(n/4, n/2)
			if per := len(all) / n; err != nil || !slices.Equal(part, all[n/4*per:n/2*per]) {
				t.Errorf("%s: a part of %s differs (%v)", arch, w.Name, err)
			}
			if _, err := w.Rows(0, n+1); err == nil {
				t.Errorf("%s: %s: a row too many: no error", arch, w.Name)
			}
		}
	}
}

func TestConfigJSON(t *testing.T) {
	for arch, name := range map[string]string{"llama": "llama_tied", "qwen2": "qwen2_untied"} {
		text, err := open(t, "testdata/"+arch+".gguf").ConfigJSON()
		if err != nil {
			t.Fatal(err)
		}
		var got, want map[string]any
		ref, _ := os.ReadFile("../testdata/tiny/" + name + "/config.json")
		if json.Unmarshal(text, &got) != nil || json.Unmarshal(ref, &want) != nil {
			t.Fatal("not JSON")
		}
		for _, key := range []string{"model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
			"num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings", "bos_token_id", "eos_token_id", "pad_token_id", "hidden_act"} {
			if got[key] != want[key] {
				t.Errorf("%s: %s is %v, want %v", arch, key, got[key], want[key])
			}
		}
		if theta := want["rope_parameters"].(map[string]any)["rope_theta"]; got["rope_theta"] != theta {
			t.Errorf("%s: rope_theta %v, want %v", arch, got["rope_theta"], theta)
		}
	}
}

func TestTokenizerJSON(t *testing.T) {
	f := open(t, "testdata/qwen2.gguf")
	text, err := f.TokenizerJSON()
	if err != nil {
		t.Fatal(err)
	}
	var j struct {
		Added []addedToken `json:"added_tokens"`
		Model struct {
			Vocab  map[string]int
			Merges []string
		}
		Normalizer struct{ Type string }
	}
	if err := json.Unmarshal(text, &j); err != nil {
		t.Fatal(err)
	}
	// 96 tokens, the last one unused; three special ones and a tag are added.
	if len(j.Model.Vocab) != 95 || j.Model.Vocab["ab"] != 94 || len(j.Model.Merges) != 1 || len(j.Added) != 4 ||
		!j.Added[2].Special || j.Added[3].Special || j.Normalizer.Type != "NFC" {
		t.Errorf("got %s", text)
	}
	text, err = f.TokenizerConfigJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"eos_token": "\u003c|im_end|\u003e"`, `"chat_template": "{{ template }}"`, `"unk_token": null`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is missing in %s", want, text)
		}
	}
}

// smollm2 is the real file; `make test` fetches it.
const smollm2 = "../../third_party/models/SmolLM2-135M-Instruct.Q4_1.gguf"

// Golden: ../testdata/smollm2.json by gen_smollm2.py: what transformers makes of the same file.
func TestSmolLM2EqualsTransformers(t *testing.T) {
	f, err := Open(smollm2)
	if err != nil {
		t.Fatalf("%v (make test-models fetches it)", err)
	}
	defer f.Close()
	var golden struct {
		Tensors map[string]struct {
			Shape []int
			Sums  [2]float64
		}
	}
	data, err := os.ReadFile("../testdata/smollm2.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	weights, err := f.Weights()
	if err != nil || len(weights) != 272 || len(golden.Tensors) != 272 {
		t.Fatalf("%d weights, %d in the golden, want 272 (%v)", len(weights), len(golden.Tensors), err)
	}
	for _, w := range weights {
		want := golden.Tensors[w.Name]
		x, err := w.Rows(0, w.Shape[0])
		if err != nil || !slices.Equal(w.Shape, want.Shape) {
			t.Errorf("%s %v, want %v (%v)", w.Name, w.Shape, want.Shape, err)
			continue
		}
		var sum, weighted, size float64
		for i, v := range x {
			sum += float64(v)
			weighted += float64(v) * float64(1+i%1009)
			size += math.Abs(float64(v))
		}
		// Exact but for the order of float64 additions: 1e-12 of the absolute sum.
		if !(math.Abs(sum-want.Sums[0]) <= 1e-12*size) || !(math.Abs(weighted-want.Sums[1]) <= 1e-12*1009*size) {
			t.Errorf("%s: sums %v %v, want %v", w.Name, sum, weighted, want.Sums)
		}
	}
}

func TestUnsupportedIsNamed(t *testing.T) {
	matrix := func(int, int) ([]float32, error) { return make([]float32, 64*32), nil }
	base := []KV{{"general.architecture", "llama"}, {"llama.block_count", uint32(1)}, {"llama.context_length", uint32(64)},
		{"llama.embedding_length", uint32(32)}, {"llama.feed_forward_length", uint32(48)}, {"llama.attention.head_count", uint32(4)},
		{"llama.attention.layer_norm_rms_epsilon", float32(1e-5)}}
	emb := Source{"token_embd.weight", F32, []int{64, 32}, matrix}
	tok := []KV{{"tokenizer.ggml.model", "gpt2"}, {"tokenizer.ggml.pre", "smollm"}, {"tokenizer.ggml.tokens", []string{"a"}},
		{"tokenizer.ggml.token_type", []int32{1}}, {"tokenizer.ggml.merges", []string{}}}
	set := func(base []KV, kv KV) []KV {
		out := slices.DeleteFunc(slices.Clone(base), func(o KV) bool { return o.Key == kv.Key })
		if kv.Value == nil {
			return out
		}
		return append(out, kv)
	}
	config := func(f *File) error { _, err := f.ConfigJSON(); return err }
	weights := func(f *File) error { _, err := f.Weights(); return err }
	tokens := func(f *File) error { _, err := f.TokenizerJSON(); return err }
	tokenConfig := func(f *File) error { _, err := f.TokenizerConfigJSON(); return err }
	for _, tc := range []struct {
		name    string
		meta    []KV
		sources []Source
		do      func(*File) error
		want    string // empty: no error
	}{
		{"good", base, []Source{emb}, config, ""},
		{"architecture", set(base, KV{"general.architecture", "gemma"}), []Source{emb}, config, `architecture "gemma"`},
		{"no heads", set(base, KV{"llama.attention.head_count", nil}), []Source{emb}, config, "llama.attention.head_count is missing"},
		{"heads per layer", set(base, KV{"llama.attention.head_count", []int32{4, 2}}), []Source{emb}, config, "llama.attention.head_count is [4 2]"},
		{"no embedding", base, nil, config, "token_embd.weight is missing"},
		{"partial rotation", set(base, KV{"llama.rope.dimension_count", uint32(4)}), []Source{emb}, config, "partial rotation"},
		{"scaled frequencies", base, []Source{emb, {"rope_freqs.weight", F32, []int{4}, func(int, int) ([]float32, error) { return make([]float32, 4), nil }}}, config, "rope_freqs.weight"},
		{"scaling", set(base, KV{"llama.rope.scaling.type", "longrope"}), []Source{emb}, config, `"longrope": want none, linear or yarn`},
		{"yarn", append(set(base, KV{"llama.rope.scaling.type", "yarn"}), KV{"llama.rope.scaling.factor", float32(4)}, KV{"llama.rope.scaling.original_context_length", uint32(64)}), []Source{emb}, config, ""},
		{"yarn without factor", set(base, KV{"llama.rope.scaling.type", "yarn"}), []Source{emb}, config, "rope.scaling.factor is missing"},
		{"unknown tensor", base, []Source{emb, {"blk.0.attn_rot.weight", F32, []int{64, 32}, matrix}}, weights, `"blk.0.attn_rot.weight" has no counterpart`},
		{"odd heads", base, []Source{{"blk.0.attn_q.weight", F32, []int{4, 512}, matrix}}, weights, "no whole number of rotated heads (4)"},
		{"scalar", base, []Source{{"blk.0.attn_q.weight", F32, nil, func(int, int) ([]float32, error) { return []float32{1}, nil }}}, weights, "want a vector or a matrix"},
		{"tokenizer", set(tok, KV{"tokenizer.ggml.model", "llama"}), nil, tokens, `tokenizer.ggml.model is "llama"`},
		{"pre-tokenizer", set(tok, KV{"tokenizer.ggml.pre", "falcon"}), nil, tokens, `tokenizer.ggml.pre is "falcon"`},
		{"no tokens", set(tok, KV{"tokenizer.ggml.tokens", nil}), nil, tokens, "tokenizer.ggml.tokens is missing"},
		{"kinds", set(tok, KV{"tokenizer.ggml.token_type", []int32{1, 1}}), nil, tokens, "2 entries for 1 tokens"},
		{"byte token", set(tok, KV{"tokenizer.ggml.token_type", []int32{6}}), nil, tokens, `token 0 ("a") is of kind 6`},
		{"same token", append(set(set(tok, KV{"tokenizer.ggml.tokens", nil}), KV{"tokenizer.ggml.token_type", []int32{1, 1}}), KV{"tokenizer.ggml.tokens", []string{"a", "a"}}), nil, tokens, `tokens 0 and 1 are both "a"`},
		{"no merges", set(tok, KV{"tokenizer.ggml.merges", nil}), nil, tokens, "merges is missing"},
		{"eos", append(slices.Clone(tok), KV{"tokenizer.ggml.eos_token_id", uint32(1)}), nil, tokenConfig, "eos_token_id is 1, there are 1 tokens"},
	} {
		path := filepath.Join(t.TempDir(), "x.gguf")
		if err := Write(path, tc.meta, tc.sources); err != nil {
			t.Fatal(tc.name, err)
		}
		err := tc.do(open(t, path))
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path)) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
}
