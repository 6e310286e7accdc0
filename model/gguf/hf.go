package gguf

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
)

// The architectures, by general.architecture; the names are Hugging Face's model_type too.
var classes = map[string]string{"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}

// Architecture is general.architecture.
func (f *File) Architecture() (string, error) {
	r := reader{f: f}
	arch := r.str("general.architecture")
	if _, ok := classes[arch]; !ok {
		return "", fmt.Errorf("%s: architecture %q is not supported: want llama, qwen2 or qwen3", f.path, arch)
	}
	return arch, nil
}

// ConfigJSON is the config.json that the metadata amounts to, for model.ParseConfig.
func (f *File) ConfigJSON() ([]byte, error) {
	arch, err := f.Architecture()
	if err != nil {
		return nil, err
	}
	r := reader{f: f}
	heads := r.int(arch+".attention.head_count", -1)
	hidden := r.int(arch+".embedding_length", -1)
	headDim := r.int(arch+".attention.key_length", hidden/max(1, heads))
	c := map[string]any{
		"model_type": arch, "architectures": []string{classes[arch]},
		"num_hidden_layers":       r.int(arch+".block_count", -1),
		"max_position_embeddings": r.int(arch+".context_length", -1),
		"hidden_size":             hidden, "num_attention_heads": heads, "head_dim": headDim,
		"intermediate_size":   r.int(arch+".feed_forward_length", -1),
		"num_key_value_heads": r.int(arch+".attention.head_count_kv", heads),
		"rms_norm_eps":        float64(float32(r.float(arch+".attention.layer_norm_rms_epsilon", -1))),
		"rope_theta":          r.float(arch+".rope.freq_base", 10000),
		"hidden_act":          "silu",
		"tie_word_embeddings": f.byName["output.weight"] == nil,
		"torch_dtype":         "float32",
	}
	// A float32 such as 9.999999747378752e-06 was written as 1e-05: take the shortest text that means the same float32.
	eps, _ := strconv.ParseFloat(strconv.FormatFloat(c["rms_norm_eps"].(float64), 'g', -1, 32), 64)
	c["rms_norm_eps"] = eps
	if emb := f.byName["token_embd.weight"]; emb != nil && len(emb.Shape) == 2 {
		c["vocab_size"] = emb.Shape[0]
	} else {
		r.errs = append(r.errs, fmt.Errorf("tensor token_embd.weight is missing or no matrix"))
	}
	if arch != "qwen2" {
		c["attention_bias"] = f.byName["blk.0.attn_q.bias"] != nil
	}
	if arch == "llama" {
		c["mlp_bias"] = f.byName["blk.0.ffn_up.bias"] != nil
	}
	r.rope(arch, headDim, c)
	r.ids(func(name string, id int) { c[name] = id })
	if err := r.err(); err != nil {
		return nil, err
	}
	return json.MarshalIndent(c, "", "  ")
}

// GenerationConfigJSON is the generation_config.json that the metadata amounts to: the ids of begin, end and padding.
func (f *File) GenerationConfigJSON() ([]byte, error) {
	r := reader{f: f}
	ids := map[string]int{}
	r.ids(func(name string, id int) { ids[name] = id })
	if err := r.err(); err != nil {
		return nil, err
	}
	return json.MarshalIndent(ids, "", "  ")
}

// ids looks up the token ids under Hugging Face's names, as far as they are there.
func (r *reader) ids(found func(name string, id int)) {
	for key, name := range map[string]string{"bos": "bos_token_id", "eos": "eos_token_id", "padding": "pad_token_id"} {
		if k := "tokenizer.ggml." + key + "_token_id"; r.has(k) {
			found(name, r.int(k, -1))
		}
	}
}

// rope translates the scaling keys, and refuses what they cannot express.
func (r *reader) rope(arch string, headDim int, c map[string]any) {
	if d := r.int(arch+".rope.dimension_count", headDim); d != headDim {
		r.errs = append(r.errs, fmt.Errorf("metadata %s.rope.dimension_count is %d, the heads have %d dimensions: partial rotation is not supported", arch, d, headDim))
	}
	if r.f.byName["rope_freqs.weight"] != nil {
		r.errs = append(r.errs, fmt.Errorf("tensor rope_freqs.weight (Llama 3.1's scaled frequencies) is not supported: use the Hugging Face directory"))
	}
	switch t := r.str(arch + ".rope.scaling.type"); t {
	case "", "none":
	case "linear", "yarn":
		scaling := map[string]any{"rope_type": t, "factor": r.float(arch+".rope.scaling.factor", -1)}
		if t == "yarn" {
			scaling["original_max_position_embeddings"] = r.int(arch+".rope.scaling.original_context_length", -1)
		}
		c["rope_scaling"] = scaling
	default:
		r.errs = append(r.errs, fmt.Errorf("metadata %s.rope.scaling.type is %q: want none, linear or yarn", arch, t))
	}
}

// Weight is a tensor under Hugging Face's name and in its layout.
type Weight struct {
	Name  string
	Shape []int // outermost axis first

	t *Tensor
	// half: rows of one head are stored as pairs (i, i+half), interleaved; 0: as they are.
	half int
}

// names maps the parts of llama.cpp's tensor names.
var names = map[string]string{
	"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
	"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
	"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
	"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
	"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}

var blockName = regexp.MustCompile(`^blk\.(0|[1-9][0-9]*)\.([a-z_]+)\.(weight|bias)$`)
var topName = regexp.MustCompile(`^(token_embd|output_norm|output)\.(weight)$`)

// hfName translates a tensor name.
func hfName(name string) (string, bool) {
	if m := topName.FindStringSubmatch(name); m != nil {
		return names[m[1]] + "." + m[2], true
	}
	if m := blockName.FindStringSubmatch(name); m != nil && names[m[2]] != "" {
		return "model.layers." + m[1] + "." + names[m[2]] + "." + m[3], true
	}
	return "", false
}

// Weights lists all tensors for a decoder. A tensor of unknown purpose is an error: leaving it out would give another
// model.
func (f *File) Weights() ([]Weight, error) {
	arch, err := f.Architecture()
	if err != nil {
		return nil, err
	}
	r := reader{f: f}
	heads := r.int(arch+".attention.head_count", -1)
	kvHeads := r.int(arch+".attention.head_count_kv", heads)
	if err := r.err(); err != nil {
		return nil, err
	}
	var out []Weight
	for _, t := range f.Tensors {
		name, ok := hfName(t.Name)
		if !ok {
			return nil, fmt.Errorf("%s: tensor %q has no counterpart in a %s decoder", f.path, t.Name, arch)
		}
		if layouts[t.Type].dequantise == nil {
			_, err := t.Rows(0, 0)
			return nil, err
		}
		if n := len(t.Shape); n != 1 && n != 2 {
			return nil, fmt.Errorf("%s: tensor %q %v: want a vector or a matrix", f.path, t.Name, t.Shape)
		}
		w := Weight{Name: name, Shape: t.Shape, t: t}
		if m := blockName.FindStringSubmatch(t.Name); m != nil && arch == "llama" && (m[2] == "attn_q" || m[2] == "attn_k") {
			n := map[string]int{"attn_q": heads, "attn_k": kvHeads}[m[2]]
			if n < 1 || t.Shape[0]%(2*n) != 0 {
				return nil, fmt.Errorf("%s: tensor %q %v is no whole number of rotated heads (%d)", f.path, t.Name, t.Shape, n)
			}
			w.half = t.Shape[0] / n / 2
		}
		out = append(out, w)
	}
	return out, nil
}

// Rows converts rows lo to hi (along the first axis) to float32: the part of a rank, or one piece after the other of a
// large tensor. A vector has one element per row.
func (w *Weight) Rows(lo, hi int) ([]float32, error) {
	if len(w.Shape) == 1 { // stored as one row, never quantised in blocks across our border
		all, err := w.t.Rows(0, 1)
		if err != nil {
			return nil, err
		}
		if lo < 0 || hi < lo || hi > len(all) {
			return nil, fmt.Errorf("%s: tensor %q %v: elements %d to %d do not exist", w.t.file, w.t.Name, w.Shape, lo, hi)
		}
		out := make([]float32, 0, hi-lo)
		for r := lo; r < hi; r++ {
			out = append(out, all[w.stored(r)])
		}
		return out, nil
	}
	if w.half == 0 {
		return w.t.Rows(lo, hi)
	}
	var out []float32
	for r := lo; r < hi; r++ {
		row, err := w.t.Rows(w.stored(r), w.stored(r)+1)
		if err != nil {
			return nil, err
		}
		out = append(out, row...)
	}
	return out, nil
}

// stored is the row of the file that is row r of Hugging Face's layout: within a head, row j·half+i is stored at 2i+j.
func (w *Weight) stored(r int) int {
	if w.half == 0 {
		return r
	}
	head, in := r/(2*w.half), r%(2*w.half)
	return head*2*w.half + 2*(in%w.half) + in/w.half
}
