package convert

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"seadtrain/model"
	"seadtrain/model/chat"
	"seadtrain/model/gguf"
	"seadtrain/model/safetensors"
	"seadtrain/model/tokenizer"
)

const (
	tiny    = "../../model/testdata/tiny/"
	smollm2 = "../../third_party/models/SmolLM2-135M-Instruct.Q4_1.gguf"
	qwen    = "../../third_party/models/qwen2.5-tokenizer"
)

func openSet(t *testing.T, path string) *safetensors.Set {
	t.Helper()
	s, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// same demands equal tensors, bit for bit.
func same(t *testing.T, got, want *safetensors.Set) {
	t.Helper()
	if !slices.Equal(got.Names(), want.Names()) {
		t.Errorf("tensors %v, want %v", got.Names(), want.Names())
		return
	}
	for _, name := range want.Names() {
		g, w := got.Get(name), want.Get(name)
		if g.DType != w.DType || !slices.Equal(g.Shape, w.Shape) || !bytes.Equal(g.Data, w.Data) {
			t.Errorf("%s: %s %v, want %s %v, or other numbers", name, g.DType, g.Shape, w.DType, w.Shape)
		}
	}
}

// What llama.cpp's converter would have written becomes the Hugging Face directory it came from.
func TestConvert(t *testing.T) {
	for arch, name := range map[string]string{"llama": "llama_tied", "qwen2": "qwen2_untied"} {
		dir := filepath.Join(t.TempDir(), "hf")
		if err := Convert(context.Background(), "../../model/gguf/testdata/"+arch+".gguf", dir, Options{}); err != nil {
			t.Fatal(err)
		}
		same(t, openSet(t, dir), openSet(t, tiny+name))
		got, err := model.LoadConfig(dir)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := model.LoadConfig(tiny + name)
		if a, b := got.RopeInvFreq(); !slices.Equal(a, first2(want.RopeInvFreq())) || b != 1 || got.RMSNormEps != want.RMSNormEps || got.DType != "float32" {
			t.Errorf("config %s", got.JSON())
		}
		g, err := model.LoadGenerationConfig(dir, got)
		if err != nil || g.BOS != 1 || !slices.Equal(g.EOS, []int{2}) || g.Pad != 0 {
			t.Errorf("generation config %+v %v", g, err)
		}
		if err := Convert(context.Background(), "../../model/gguf/testdata/"+arch+".gguf", dir, Options{}); err == nil || !strings.Contains(err.Error(), "exists already") {
			t.Errorf("over an existing directory: %v", err)
		}
	}
}

func first2(a []float32, _ float32) []float32 { return a }

// To GGUF in F32 and back nothing changes, for every family whose config GGUF can express.
func TestRoundTrip(t *testing.T) {
	for _, name := range []string{"qwen2_tied", "qwen2_untied", "qwen3_tied", "qwen3_untied", "llama_tied"} {
		tmp := t.TempDir()
		file := filepath.Join(tmp, "x.gguf")
		if err := Convert(context.Background(), tiny+name, file, Options{}); err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		text, err := f.ConfigJSON()
		if err != nil {
			t.Fatal(name, err)
		}
		got, err := model.ParseConfig(text)
		if err != nil {
			t.Fatal(name, err)
		}
		want, _ := model.LoadConfig(tiny + name)
		if got.HeadDim != want.HeadDim || got.NumKeyValueHeads != want.NumKeyValueHeads || got.Rope != want.Rope ||
			got.AttentionBias != want.AttentionBias || got.TieWordEmbeddings != want.TieWordEmbeddings {
			t.Errorf("%s: config %s", name, text)
		}
		weights, err := f.Weights()
		if err != nil {
			t.Fatal(err)
		}
		hf := openSet(t, tiny+name)
		if len(weights) != len(hf.Names()) {
			t.Errorf("%s: %d weights, want %d", name, len(weights), len(hf.Names()))
		}
		for _, w := range weights {
			all, _ := hf.Get(w.Name).Float32s()
			if v, err := w.Rows(0, w.Shape[0]); err != nil || !slices.Equal(v, all) {
				t.Errorf("%s: %s differs (%v)", name, w.Name, err)
			}
		}
		f.Close()
	}
}

func TestToGGUFRefuses(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x.gguf")
	if err := Convert(context.Background(), tiny+"llama_untied", out, Options{}); err == nil || !strings.Contains(err.Error(), `rope_type "llama3" cannot be written`) {
		t.Errorf("llama3 frequencies: %v", err)
	}
	if err := Convert(context.Background(), tiny+"qwen2_tied", out, Options{DType: "q6_k"}); err == nil || !strings.Contains(err.Error(), `dtype "q6_k"`) {
		t.Errorf("q6_k: %v", err)
	}
	if err := Convert(context.Background(), tiny+"qwen2_tied", out, Options{DType: "q8_0"}); err == nil || !strings.Contains(err.Error(), "block of 32") { // FFN of 48
		t.Errorf("Q8_0 of 48 columns: %v", err)
	}
	os.WriteFile(out, nil, 0o644)
	if err := Convert(context.Background(), tiny+"qwen2_tied", out, Options{}); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("over an existing file: %v", err)
	}
}

// Another type and sharding: bf16 is the rounded fp32, the tokenizer's files come along.
func TestFromHF(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "hf")
	if err := Convert(context.Background(), tiny+"llama_untied", dir, Options{DType: "bf16", MaxShard: 8 << 10}); err != nil {
		t.Fatal(err)
	}
	got, want := openSet(t, dir), openSet(t, tiny+"llama_untied")
	if files, _ := filepath.Glob(filepath.Join(dir, "model-*.safetensors")); len(files) < 2 || !slices.Equal(got.Names(), want.Names()) {
		t.Errorf("files %v, tensors %v", files, got.Names())
	}
	for _, name := range want.Names() {
		v, _ := want.Get(name).Float32s()
		b, _ := safetensors.AppendFloat32s(nil, safetensors.BF16, v)
		if !bytes.Equal(got.Get(name).Data, b) {
			t.Errorf("%s differs", name)
		}
	}
	if c, err := model.LoadConfig(dir); err != nil || c.DType != "bfloat16" || c.Rope.Type != model.RopeLlama3 {
		t.Errorf("config %+v %v", c, err)
	}
}

// The real Qwen2.5 tokenizer survives GGUF: vocabulary, merges, special tokens, chat template.
func TestTokenizerRoundTrip(t *testing.T) {
	want, err := tokenizer.Load(qwen)
	if err != nil {
		t.Fatalf("%v (make test-models fetches it)", err)
	}
	defer want.Close()
	c, _ := model.ParseConfig([]byte(`{"model_type":"qwen2","vocab_size":151936,"hidden_size":2,"intermediate_size":1,"num_hidden_layers":1,"num_attention_heads":1,"num_key_value_heads":1}`))
	meta, err := ggufTokenizer(qwen, c)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.gguf")
	if err := gguf.Write(path, append(meta, gguf.KV{Key: "general.architecture", Value: "qwen2"}), nil); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := f.TokenizerJSON()
	if err != nil {
		t.Fatal(err)
	}
	got, err := tokenizer.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if got.VocabSize() != want.VocabSize() {
		t.Errorf("%d tokens, want %d", got.VocabSize(), want.VocabSize())
	}
	for id := range int32(want.VocabSize()) {
		if !bytes.Equal(got.Bytes(id), want.Bytes(id)) || got.Special(id) != want.Special(id) {
			t.Fatalf("token %d is %q, want %q", id, got.Bytes(id), want.Bytes(id))
		}
	}
	for _, text := range []string{"Hello, world! 1234 it's", "你好 <tool_call> é e\u0301\n\n  x", "<|im_end|>"} {
		a, err1 := got.EncodeRaw(text)
		b, err2 := want.EncodeRaw(text)
		if err1 != nil || err2 != nil || !slices.Equal(a, b) {
			t.Errorf("%q: %v, want %v", text, a, b)
		}
	}
	if _, err := chat.New(f.ChatTemplate(), got); err != nil {
		t.Error(err)
	}
}

func TestSmolLM2Directory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "SmolLM2")
	if err := Convert(context.Background(), smollm2, dir, Options{DType: "bf16", MaxShard: 100 << 20}); err != nil {
		t.Fatalf("%v (make test-models fetches it)", err)
	}
	set := openSet(t, dir) // 269 MB in three shards
	if len(set.Names()) != 272 || set.Get("model.layers.29.mlp.down_proj.weight").DType != safetensors.BF16 {
		t.Errorf("%d tensors", len(set.Names()))
	}
	c, err := model.LoadConfig(dir)
	if err != nil || c.NumHiddenLayers != 30 || c.HeadDim != 64 || c.Rope.Theta != 1e5 || c.RMSNormEps != 1e-5 || !c.TieWordEmbeddings || c.VocabSize != 49152 || c.DType != "bfloat16" {
		t.Errorf("config %+v %v", c, err)
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	if !slices.Equal(tok.EOS, []int32{2}) || tok.BOS != 1 || tok.Pad != 2 {
		t.Errorf("EOS %v, BOS %d, pad %d", tok.EOS, tok.BOS, tok.Pad)
	}
	// Its vocabulary lacks 21 bytes, 04 and F1 among them: characters with them are replaced, not dropped.
	if ids, err := tok.Encode("a\x04b\U00045678"); err != nil || tok.Decode(ids, false) != "a\uFFFDb\uFFFD" {
		t.Errorf("an EOT and a rare plane gave %q %v", tok.Decode(ids, false), err)
	}
	if _, err := chat.Load(dir, tok); err != nil {
		t.Error(err)
	}
	if names, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), ".*tmp*")); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
}

// countdown is a context that is cancelled when it has been asked so many times.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// A stop at any point ends the conversion and leaves nothing behind.
func TestStop(t *testing.T) {
	hf := tiny + "llama_tied"
	for _, c := range []struct {
		src, dst string
		o        Options
	}{
		{hf, "same", Options{}}, {hf, "bf16", Options{DType: "bf16"}}, {hf, "x.gguf", Options{}}, {"../../model/gguf/testdata/qwen2.gguf", "hf", Options{}},
	} {
		dir := t.TempDir()
		asked := 0
		for ; ; asked++ {
			err := Convert(&countdown{context.Background(), asked}, c.src, filepath.Join(dir, c.dst), c.o)
			if err == nil {
				break
			}
			if left, _ := os.ReadDir(dir); !errors.Is(err, context.Canceled) || len(left) > 0 {
				t.Fatalf("%s, stopped at question %d: %v, left are %v", c.dst, asked, err, left)
			}
		}
		if asked < 5 { // once a tensor at least
			t.Errorf("%s: asked %d times whether to stop", c.dst, asked)
		}
	}
}

// A failure leaves nothing behind.
func TestFailureLeavesNothing(t *testing.T) {
	tmp := t.TempDir()
	if err := Convert(context.Background(), "../../model/gguf/testdata/qwen2.gguf", filepath.Join(tmp, "x"), Options{DType: "i8"}); err == nil {
		t.Error("i8: no error")
	}
	data, _ := os.ReadFile("../../model/gguf/testdata/qwen2.gguf")
	bad := filepath.Join(t.TempDir(), "bad.gguf")
	os.WriteFile(bad, bytes.Replace(data, []byte("blk.1.ffn_up.weight"), []byte("blk.1.ffn_xx.weight"), 1), 0o644)
	if err := Convert(context.Background(), bad, filepath.Join(tmp, "x"), Options{}); err == nil || !strings.Contains(err.Error(), "blk.1.ffn_xx.weight") {
		t.Errorf("unknown tensor: %v", err)
	}
	if left, _ := os.ReadDir(tmp); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
