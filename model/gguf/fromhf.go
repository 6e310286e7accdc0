package gguf

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

var layerName = regexp.MustCompile(`^model\.layers\.(0|[1-9][0-9]*)\.(.+)\.(weight|bias)$`)

// Name is llama.cpp's name of a tensor of a Hugging Face checkpoint.
func Name(hf string) (string, bool) {
	base, isWeight := strings.CutSuffix(hf, ".weight")
	m := layerName.FindStringSubmatch(hf)
	for ours, theirs := range names {
		switch {
		case m != nil && theirs == m[2]:
			return "blk." + m[1] + "." + ours + "." + m[3], true
		case m == nil && isWeight && theirs == base && topName.MatchString(ours+".weight"):
			return ours + ".weight", true
		}
	}
	return "", false
}

// TokenizerMeta is a tokenizer.json (one that package tokenizer accepts) in llama.cpp's keys. size is the number of the
// model's embeddings: ids beyond the tokenizer's become unused tokens.
func TokenizerMeta(tokenizerJSON []byte, size int) ([]KV, error) {
	var f struct {
		Added        []addedToken    `json:"added_tokens"`
		PreTokenizer json.RawMessage `json:"pre_tokenizer"`
		Model        struct {
			Vocab  map[string]int  `json:"vocab"`
			Merges json.RawMessage `json:"merges"`
		} `json:"model"`
	}
	if err := json.Unmarshal(tokenizerJSON, &f); err != nil {
		return nil, err
	}
	pre, err := preName(f.PreTokenizer)
	if err != nil {
		return nil, err
	}
	merges, err := mergeList(f.Model.Merges)
	if err != nil {
		return nil, err
	}
	tokens, kinds := make([]string, size), make([]int32, size)
	put := func(id int, s string, kind int32) error {
		if id < 0 || id >= size {
			return fmt.Errorf("token %q has id %d, the model has %d embeddings", s, id, size)
		}
		tokens[id], kinds[id] = s, kind
		return nil
	}
	var errs []error
	for s, id := range f.Model.Vocab {
		errs = append(errs, put(id, s, tokenNormal))
	}
	for _, a := range f.Added {
		kind := int32(tokenUser)
		if a.Special {
			kind = tokenControl
		}
		errs = append(errs, put(a.ID, a.Content, kind))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for id := range tokens {
		if kinds[id] == 0 {
			tokens[id], kinds[id] = fmt.Sprintf("[PAD%d]", id), tokenUnused
		}
	}
	return []KV{{"tokenizer.ggml.model", "gpt2"}, {"tokenizer.ggml.pre", pre}, {"tokenizer.ggml.tokens", tokens},
		{"tokenizer.ggml.token_type", kinds}, {"tokenizer.ggml.merges", merges}, {"tokenizer.ggml.add_bos_token", false}}, nil
}

// preName recognises the pre-tokenizer among those that llama.cpp has a name for.
func preName(raw json.RawMessage) (string, error) {
	var p struct {
		Type  string
		Steps []struct {
			Type       string
			Individual bool `json:"individual_digits"`
			UseRegex   bool `json:"use_regex"`
			Pattern    struct{ Regex string }
		} `json:"pretokenizers"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return "", fmt.Errorf("pre_tokenizer: %w", err)
	}
	if p.Type == "Sequence" && len(p.Steps) == 2 && p.Steps[1].Type == "ByteLevel" {
		switch first := p.Steps[0]; {
		case first.Type == "Split" && first.Pattern.Regex == qwenPattern:
			return "qwen2", nil
		case first.Type == "Digits" && first.Individual && p.Steps[1].UseRegex:
			return "smollm", nil
		}
	}
	return "", errors.New("pre_tokenizer: llama.cpp has no name for this one (only those of Qwen and SmolLM2 can be written to GGUF)")
}

// mergeList reads both forms of merges: "a b", and ["a", "b"].
func mergeList(raw json.RawMessage) ([]string, error) {
	var texts []string
	if json.Unmarshal(raw, &texts) == nil {
		return texts, nil
	}
	var pairs [][2]string
	if err := json.Unmarshal(raw, &pairs); err != nil {
		return nil, fmt.Errorf("model.merges: want texts or pairs: %w", err)
	}
	texts = []string{}
	for _, p := range pairs {
		texts = append(texts, p[0]+" "+p[1])
	}
	return texts, nil
}
