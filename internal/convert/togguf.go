package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"seadtrain/model"
	"seadtrain/model/gguf"
	"seadtrain/model/safetensors"
	"seadtrain/model/tokenizer"
)

var ggufTypes = map[string]gguf.Type{"": gguf.F32, "fp32": gguf.F32, "bf16": gguf.BF16, "fp16": gguf.F16, "q8_0": gguf.Q8_0}

// toGGUF writes a Hugging Face directory as a GGUF file. Matrices get the type asked for, norms and biases stay F32, as
// llama.cpp's converter has it. A directory without tokenizer.json gives a file without a tokenizer.
func toGGUF(ctx context.Context, dir, dst string, o Options) error {
	c, err := model.LoadConfig(dir)
	if err != nil {
		return err
	}
	set, err := safetensors.Open(dir)
	if err != nil {
		return err
	}
	defer set.Close()
	meta, err := ggufMeta(c)
	if err != nil {
		return fmt.Errorf("convert %s: %w", dir, err)
	}
	tokens, err := ggufTokenizer(dir, c)
	if err != nil {
		return err
	}
	sources, err := ggufSources(ctx, set, c, ggufTypes[o.DType])
	if err != nil {
		return fmt.Errorf("convert %s: %w", dir, err)
	}
	return gguf.Write(dst, append(meta, tokens...), sources)
}

// ggufMeta is the config in llama.cpp's keys.
func ggufMeta(c *model.Config) ([]gguf.KV, error) {
	a := c.ModelType
	u := func(n int) uint32 { return uint32(n) }
	meta := []gguf.KV{
		{Key: "general.architecture", Value: a}, {Key: "general.type", Value: "model"},
		{Key: a + ".block_count", Value: u(c.NumHiddenLayers)}, {Key: a + ".context_length", Value: u(c.MaxPositionEmbeddings)},
		{Key: a + ".embedding_length", Value: u(c.HiddenSize)}, {Key: a + ".feed_forward_length", Value: u(c.IntermediateSize)},
		{Key: a + ".attention.head_count", Value: u(c.NumAttentionHeads)}, {Key: a + ".attention.head_count_kv", Value: u(c.NumKeyValueHeads)},
		{Key: a + ".attention.key_length", Value: u(c.HeadDim)}, {Key: a + ".attention.value_length", Value: u(c.HeadDim)},
		{Key: a + ".attention.layer_norm_rms_epsilon", Value: float32(c.RMSNormEps)}, {Key: a + ".rope.freq_base", Value: float32(c.Rope.Theta)},
		{Key: a + ".rope.dimension_count", Value: u(c.HeadDim)}, {Key: a + ".vocab_size", Value: u(c.VocabSize)},
	}
	switch r := c.Rope; r.Type {
	case model.RopeDefault:
	case model.RopeYarn:
		if r.BetaFast != 0 || r.BetaSlow != 0 || r.MScale != 0 || r.MScaleAllDim != 0 || r.AttentionFactor != 0 || r.NoTruncate {
			return nil, errors.New("rope_scaling: GGUF has no keys for yarn's betas, mscale, attention_factor and truncate")
		}
		meta = append(meta, gguf.KV{Key: a + ".rope.scaling.original_context_length", Value: u(r.OrigMax)})
		fallthrough
	case model.RopeLinear:
		meta = append(meta, gguf.KV{Key: a + ".rope.scaling.type", Value: string(r.Type)}, gguf.KV{Key: a + ".rope.scaling.factor", Value: float32(r.Factor)})
	default:
		return nil, fmt.Errorf("rope_scaling: rope_type %q cannot be written to GGUF: only default, linear and yarn", r.Type)
	}
	return meta, nil
}

// ggufSources lists the tensors, q and k of the llama architecture with interleaved rows.
func ggufSources(ctx context.Context, set *safetensors.Set, c *model.Config, typ gguf.Type) ([]gguf.Source, error) {
	var out []gguf.Source
	for _, name := range set.Names() {
		t := set.Get(name)
		if name == "lm_head.weight" && c.TieWordEmbeddings {
			continue // the same numbers as the embedding's
		}
		to, ok := gguf.Name(name)
		if !ok {
			return nil, fmt.Errorf("%s: tensor %q has no counterpart in GGUF", t.File, name)
		}
		s := gguf.Source{Name: to, Type: typ, Shape: t.Shape}
		if len(t.Shape) < 2 {
			s.Type = gguf.F32
		}
		half := 0
		if c.ModelType == model.Llama && (strings.Contains(name, ".q_proj.") || strings.Contains(name, ".k_proj.")) {
			half = c.HeadDim / 2
		}
		s.Rows = func(lo, hi int) ([]float32, error) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			return rows(t, lo, hi, half)
		}
		out = append(out, s)
	}
	return out, nil
}

// rows converts rows lo to hi of the file that is written: with half, its row 2i+j of a head is our row j·half+i.
func rows(t *safetensors.Tensor, lo, hi, half int) ([]float32, error) {
	if half == 0 {
		b, err := t.Rows(lo, hi)
		if err != nil {
			return nil, err
		}
		return safetensors.Float32s(t.DType, b)
	}
	var out []float32
	for r := lo; r < hi; r++ {
		head, in := r/(2*half), r%(2*half)
		from := head*2*half + in%2*half + in/2
		b, err := t.Rows(from, from+1)
		if err != nil {
			return nil, err
		}
		v, err := safetensors.Float32s(t.DType, b)
		if err != nil {
			return nil, err
		}
		out = append(out, v...)
	}
	return out, nil
}

// ggufTokenizer is the tokenizer in llama.cpp's keys.
func ggufTokenizer(dir string, c *model.Config) ([]gguf.KV, error) {
	path := filepath.Join(dir, "tokenizer.json")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		return nil, err
	}
	tok.Close()
	meta, err := gguf.TokenizerMeta(data, c.VocabSize)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, id := range []struct {
		key string
		id  int32
	}{{"bos", tok.BOS}, {"eos", first(tok.EOS)}, {"padding", tok.Pad}} {
		if id.id >= 0 {
			meta = append(meta, gguf.KV{Key: "tokenizer.ggml." + id.key + "_token_id", Value: uint32(id.id)})
		}
	}
	var config struct {
		Template json.RawMessage `json:"chat_template"`
	}
	text, err := os.ReadFile(filepath.Join(dir, "chat_template.jinja"))
	if err == nil {
		return append(meta, gguf.KV{Key: "tokenizer.chat_template", Value: string(text)}), nil
	}
	var template string
	if text, err = os.ReadFile(filepath.Join(dir, "tokenizer_config.json")); err == nil && json.Unmarshal(text, &config) == nil && json.Unmarshal(config.Template, &template) == nil {
		meta = append(meta, gguf.KV{Key: "tokenizer.chat_template", Value: template})
	}
	return meta, nil
}

func first(ids []int32) int32 {
	if len(ids) == 0 {
		return -1
	}
	return ids[0]
}
