package model

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const qwen25 = `{
  "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151645,
  "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02, "intermediate_size": 4864,
  "max_position_embeddings": 32768, "max_window_layers": 21, "model_type": "qwen2", "num_attention_heads": 14,
  "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
  "sliding_window": 32768, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.43.1",
  "use_cache": true, "use_sliding_window": false, "vocab_size": 151936
}`

// edit returns qwen25 with keys set (or deleted with nil).
func edit(t *testing.T, kv map[string]any) []byte {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(qwen25), &m); err != nil {
		t.Fatal(err)
	}
	for k, v := range kv {
		if v == nil {
			delete(m, k)
		} else {
			m[k] = v
		}
	}
	b, _ := json.Marshal(m)
	return b
}

func TestConfigReadsQwen25(t *testing.T) {
	c, err := ParseConfig([]byte(qwen25))
	if err != nil {
		t.Fatal(err)
	}
	if c.HeadDim != 64 || !c.TieWordEmbeddings || c.Rope.Theta != 1e6 || c.Rope.Type != RopeDefault || c.DType != "bfloat16" ||
		c.PadTokenID != -1 || c.BOSTokenID != 151643 || !reflect.DeepEqual(c.EOSTokenID, []int{151645}) {
		t.Errorf("got %+v", c)
	}
	if !c.QKVBias() || c.OBias() || c.QKNorm() {
		t.Error("Qwen2 has biases on q, k, v only and no head norms")
	}
}

func TestConfigDefaultsAreTheFamilys(t *testing.T) {
	llama := map[string]any{"model_type": "llama", "architectures": nil, "num_key_value_heads": nil, "rope_theta": nil,
		"max_position_embeddings": nil, "rms_norm_eps": nil, "tie_word_embeddings": nil}
	c, err := ParseConfig(edit(t, llama))
	if err != nil {
		t.Fatal(err)
	}
	if c.NumKeyValueHeads != 14 || c.MaxPositionEmbeddings != 2048 || c.Rope.Theta != 1e4 || c.RMSNormEps != 1e-6 || c.TieWordEmbeddings {
		t.Errorf("got %+v", c)
	}
	c, err = ParseConfig(edit(t, map[string]any{"model_type": "qwen3", "architectures": nil}))
	if err != nil {
		t.Fatal(err)
	}
	if c.HeadDim != 128 || c.OBias() || !c.QKNorm() {
		t.Errorf("Qwen3 without head_dim: got %d, want 128; %+v", c.HeadDim, c)
	}
}

func TestConfigRefusals(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  map[string]any
		want string
	}{
		{"other family", map[string]any{"model_type": "gpt2"}, `model_type "gpt2" is not supported`},
		{"no family", map[string]any{"model_type": nil}, "model_type is missing"},
		{"missing size", map[string]any{"hidden_size": nil}, "hidden_size is missing"},
		{"kv heads are not guessed", map[string]any{"num_key_value_heads": nil}, "num_key_value_heads is missing"},
		{"two at once", map[string]any{"hidden_size": nil, "vocab_size": nil}, "vocab_size is missing\nhidden_size is missing"},
		{"wrong type", map[string]any{"hidden_size": "896"}, "hidden_size is a string: want int"},
		{"fraction", map[string]any{"num_hidden_layers": 2.5}, "num_hidden_layers is a number 2.5: want int"},
		{"zero", map[string]any{"num_hidden_layers": 0}, "num_hidden_layers is 0"},
		{"huge", map[string]any{"vocab_size": 1 << 40}, "vocab_size is 1099511627776"},
		{"heads", map[string]any{"num_key_value_heads": 3}, "not a multiple of num_key_value_heads 3"},
		{"odd head", map[string]any{"head_dim": 65}, "head_dim is 65"},
		{"activation", map[string]any{"hidden_act": "gelu"}, `hidden_act is "gelu"`},
		{"sliding window", map[string]any{"use_sliding_window": true}, "use_sliding_window is true"},
		{"layer types", map[string]any{"layer_types": []string{"full_attention", "sliding_attention"}}, "layer_types[1]"},
		{"quantised", map[string]any{"quantization_config": map[string]any{"bits": 4}}, "quantization_config is set"},
		{"dropout", map[string]any{"attention_dropout": 0.1}, "attention_dropout is 0.1"},
		{"class", map[string]any{"architectures": []string{"Qwen2ForSequenceClassification"}}, "architectures is"},
		{"eos outside", map[string]any{"eos_token_id": []int{1, 151936}}, "eos_token_id 151936 is outside"},
		{"eos type", map[string]any{"eos_token_id": "x"}, "a token id is \"x\""},
		{"dtype", map[string]any{"torch_dtype": "int8"}, `dtype is "int8"`},
		{"mlp bias", map[string]any{"mlp_bias": true}, "mlp_bias is true"},
		{"rope type", map[string]any{"rope_scaling": map[string]any{"type": "longrope"}}, `rope_type "longrope" is not supported`},
		{"rope factor", map[string]any{"rope_scaling": map[string]any{"type": "linear"}}, "factor is 0"},
		{"llama3 bands", map[string]any{"rope_scaling": map[string]any{"rope_type": "llama3", "factor": 8}}, "want 0 < low < high"},
		{"partial rotary", map[string]any{"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5"},
		{"eps", map[string]any{"rms_norm_eps": 0}, "rms_norm_eps is 0"},
	} {
		_, err := ParseConfig(edit(t, tc.set))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q in it", tc.name, err, tc.want)
		}
	}
	if _, err := ParseConfig([]byte("{\n\"model_type\": \"qwen2\",\n oops}")); err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("syntax error: got %v, want the line", err)
	}
	if _, err := LoadConfig(t.TempDir()); err == nil || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("no file: got %v", err)
	}
}

func TestConfigWritesBackWhatItRead(t *testing.T) {
	dirs, _ := filepath.Glob("testdata/tiny/*/config.json")
	texts := [][]byte{[]byte(qwen25), edit(t, map[string]any{"rope_scaling": map[string]any{
		"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, "eos_token_id": []int{5, 6}})}
	for _, p := range dirs {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, b)
	}
	if len(texts) != 8 {
		t.Fatalf("%d configs, want 8", len(texts))
	}
	for _, b := range texts {
		c, err := ParseConfig(b)
		if err != nil {
			t.Fatal(err)
		}
		d, err := ParseConfig(c.JSON())
		if err != nil {
			t.Fatal(err)
		}
		if string(c.JSON()) != string(d.JSON()) {
			t.Errorf("not stable:\n%s\n%s", c.JSON(), d.JSON())
		}
		c.extra, d.extra = nil, nil
		if !reflect.DeepEqual(c, d) {
			t.Errorf("read back %+v, want %+v", d, c)
		}
	}
	old, _ := ParseConfig(edit(t, map[string]any{"torch_dtype": nil, "dtype": "float32"}))
	old.DType = "bfloat16"
	if now, err := ParseConfig(old.JSON()); err != nil || now.DType != "bfloat16" {
		t.Errorf("a changed dtype is written as %q (%v)", now.DType, err)
	}
	c, _ := ParseConfig(edit(t, map[string]any{"a_key_of_theirs": []int{1}}))
	if s := string(c.JSON()); !strings.Contains(s, "a_key_of_theirs") || !strings.Contains(s, `"rope_theta": 1e+06`) {
		t.Errorf("a key is lost, or a float has become an int:\n%s", s)
	}
}

// Golden: testdata/rope.json by gen_golden.py. 4e-7 is a few units in the last place of a float32: transformers computes
// powers and blends in float32, we in float64.
func TestRopeEqualsTransformers(t *testing.T) {
	data, err := os.ReadFile("testdata/rope.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name    string          `json:"name"`
		HeadDim int             `json:"head_dim"`
		MaxPos  int             `json:"max_position_embeddings"`
		Params  json.RawMessage `json:"rope_parameters"`
		InvFreq []float64       `json:"inv_freq"`
		Scaling float64         `json:"attention_scaling"`
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) != 9 {
		t.Fatalf("%d cases, want 9", len(cases))
	}
	for _, key := range []string{"rope_parameters", "rope_scaling"} {
		for _, tc := range cases {
			c, err := ParseConfig(edit(t, map[string]any{key: tc.Params, "head_dim": tc.HeadDim, "max_position_embeddings": tc.MaxPos}))
			if err != nil {
				t.Fatal(tc.Name, err)
			}
			inv, scale := c.RopeInvFreq()
			if len(inv) != len(tc.InvFreq) {
				t.Fatalf("%s: %d frequencies, want %d", tc.Name, len(inv), len(tc.InvFreq))
			}
			for i, f := range inv {
				if !(math.Abs(float64(f)-tc.InvFreq[i]) <= 4e-7*tc.InvFreq[i]) {
					t.Errorf("%s: inv_freq[%d] = %g, want %g", tc.Name, i, f, tc.InvFreq[i])
				}
			}
			if !(math.Abs(float64(scale)-tc.Scaling) <= 1e-7*tc.Scaling) {
				t.Errorf("%s: attention scaling %g, want %g", tc.Name, scale, tc.Scaling)
			}
		}
	}
}

func TestMaxContext(t *testing.T) {
	for _, tc := range []struct {
		rope map[string]any
		want int
	}{
		{nil, 32768},
		{map[string]any{"type": "linear", "factor": 2}, 65536},
		{map[string]any{"type": "dynamic", "factor": 2}, 32768},
		{map[string]any{"type": "yarn", "factor": 4, "original_max_position_embeddings": 32768}, 131072},
	} {
		set := map[string]any{}
		if tc.rope != nil {
			set["rope_scaling"] = tc.rope
		}
		c, err := ParseConfig(edit(t, set))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.MaxContext(); got != tc.want {
			t.Errorf("%v: %d, want %d", tc.rope, got, tc.want)
		}
	}
}

func TestGenerationConfig(t *testing.T) {
	cfg, _ := ParseConfig([]byte(qwen25))
	for _, tc := range []struct {
		text string
		want GenerationConfig
		err  string
	}{
		{`{"bos_token_id": 151643, "pad_token_id": 151643, "eos_token_id": [151645, 151643]}`, GenerationConfig{151643, []int{151645, 151643}, 151643}, ""},
		{`{"temperature": 0.7}`, GenerationConfig{151643, []int{151645}, -1}, ""},
		{`{"eos_token_id": 151936}`, GenerationConfig{}, "eos_token_id 151936 is outside"},
		{`{"eos_token_id": {}}`, GenerationConfig{}, "a token id is {}"},
		{"", GenerationConfig{151643, []int{151645}, -1}, ""}, // no file
	} {
		dir := t.TempDir()
		if tc.text != "" {
			os.WriteFile(filepath.Join(dir, "generation_config.json"), []byte(tc.text), 0o644)
		}
		got, err := LoadGenerationConfig(dir, cfg)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%s: got %v, want %q", tc.text, err, tc.err)
			}
		} else if err != nil || !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: got %+v %v, want %+v", tc.text, got, err, tc.want)
		}
	}
}
