package gguf

import (
	"encoding/json"
	"fmt"
)

// Kinds of tokens in tokenizer.ggml.token_type.
const (
	tokenNormal  = 1
	tokenControl = 3 // special
	tokenUser    = 4 // added, not special
	tokenUnused  = 5 // fills the vocabulary up
)

// preTokenizers are the ways of cutting a text before merging, by tokenizer.ggml.pre, as tokenizer.json writes them.
// The patterns are those the models were trained with.
var preTokenizers = map[string]struct {
	normalizer any
	steps      []any
}{
	"smollm": {nil, []any{
		map[string]any{"type": "Digits", "individual_digits": true},
		map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
	}},
	"qwen2": {map[string]any{"type": "NFC"}, []any{
		map[string]any{"type": "Split", "behavior": "Isolated", "invert": false, "pattern": map[string]any{"Regex": qwenPattern}},
		map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false},
	}},
}

const qwenPattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

// addedToken is an entry of added_tokens.
type addedToken struct {
	ID         int    `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// tokens reads the vocabulary and the kind of each token.
func (f *File) tokens() (list []string, kinds []int64, err error) {
	r := reader{f: f}
	if m := r.str("tokenizer.ggml.model"); m != "gpt2" {
		return nil, nil, fmt.Errorf("%s: tokenizer.ggml.model is %q: only byte-level BPE (gpt2) is supported", f.path, m)
	}
	list, ok := f.meta["tokenizer.ggml.tokens"].([]string)
	if !ok || len(list) == 0 {
		return nil, nil, fmt.Errorf("%s: metadata tokenizer.ggml.tokens is missing", f.path)
	}
	kinds, ok = f.meta["tokenizer.ggml.token_type"].([]int64)
	if !ok || len(kinds) != len(list) {
		return nil, nil, fmt.Errorf("%s: metadata tokenizer.ggml.token_type: %d entries for %d tokens", f.path, len(kinds), len(list))
	}
	return list, kinds, nil
}

// TokenizerJSON is the tokenizer.json that the metadata amounts to.
func (f *File) TokenizerJSON() ([]byte, error) {
	list, kinds, err := f.tokens()
	if err != nil {
		return nil, err
	}
	r := reader{f: f}
	pre := r.str("tokenizer.ggml.pre")
	steps, ok := preTokenizers[pre]
	if !ok {
		return nil, fmt.Errorf("%s: tokenizer.ggml.pre is %q: only smollm and qwen2 are supported; take tokenizer.json from the model's Hugging Face directory", f.path, pre)
	}
	merges, ok := f.meta["tokenizer.ggml.merges"].([]string)
	if !ok {
		return nil, fmt.Errorf("%s: metadata tokenizer.ggml.merges is missing", f.path)
	}
	vocab, added := make(map[string]int, len(list)), []addedToken{}
	for id, s := range list {
		switch kinds[id] {
		case tokenUnused:
			continue
		case tokenControl, tokenUser:
			added = append(added, addedToken{ID: id, Content: s, Special: kinds[id] == tokenControl})
		case tokenNormal:
		default:
			return nil, fmt.Errorf("%s: token %d (%q) is of kind %d: only normal, control, user-defined and unused tokens are supported", f.path, id, s, kinds[id])
		}
		if old, dup := vocab[s]; dup {
			return nil, fmt.Errorf("%s: tokens %d and %d are both %q", f.path, old, id, s)
		}
		vocab[s] = id
	}
	byteLevel := map[string]any{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}
	return json.Marshal(map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": added, "normalizer": steps.normalizer,
		"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": steps.steps}, "post_processor": nil, "decoder": byteLevel,
		"model": map[string]any{"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
			"fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": vocab, "merges": merges},
	})
}

// ChatTemplate is the Jinja text of the chat template, or "".
func (f *File) ChatTemplate() string {
	s, _ := f.meta["tokenizer.chat_template"].(string)
	return s
}

// TokenizerConfigJSON is the tokenizer_config.json that the metadata amounts to, with the chat template.
func (f *File) TokenizerConfigJSON() ([]byte, error) {
	list, kinds, err := f.tokens()
	if err != nil {
		return nil, err
	}
	r := reader{f: f}
	decoder := map[string]any{}
	for id, s := range list {
		if kinds[id] == tokenControl || kinds[id] == tokenUser {
			decoder[fmt.Sprint(id)] = map[string]any{"content": s, "lstrip": false, "normalized": false, "rstrip": false, "single_word": false, "special": kinds[id] == tokenControl}
		}
	}
	c := map[string]any{
		"tokenizer_class": "PreTrainedTokenizerFast", "added_tokens_decoder": decoder, "clean_up_tokenization_spaces": false,
		"add_prefix_space": false, "model_max_length": r.int(r.str("general.architecture")+".context_length", 1<<30),
	}
	for key, name := range map[string]string{"bos": "bos_token", "eos": "eos_token", "padding": "pad_token", "unknown": "unk_token"} {
		k := "tokenizer.ggml." + key + "_token_id"
		if !r.has(k) {
			c[name] = nil
			continue
		}
		id := r.int(k, -1)
		if id >= len(list) {
			return nil, fmt.Errorf("%s: metadata %s is %d, there are %d tokens", f.path, k, id, len(list))
		}
		c[name] = list[id]
	}
	if t := f.ChatTemplate(); t != "" {
		c["chat_template"] = t
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return json.MarshalIndent(c, "", "  ")
}
