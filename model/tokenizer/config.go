package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// loadIDs reads the ids of the begin, end and padding tokens from the files beside tokenizer.json, as far as they exist.
func (t *Tokenizer) loadIDs(dir string) error {
	path := filepath.Join(dir, "tokenizer_config.json")
	var config struct {
		BOS tokenName `json:"bos_token"`
		EOS tokenName `json:"eos_token"`
		Pad tokenName `json:"pad_token"`
	}
	if err := readJSON(path, &config); err != nil {
		return err
	}
	id := func(field string, name tokenName) (int32, error) {
		if name == "" {
			return -1, nil
		}
		id, ok := t.ID(string(name))
		if !ok {
			return -1, fmt.Errorf("%s: %s is %q, which is not among the added tokens of tokenizer.json", path, field, name)
		}
		return id, nil
	}
	var errs [3]error
	var eos int32
	t.BOS, errs[0] = id("bos_token", config.BOS)
	eos, errs[1] = id("eos_token", config.EOS)
	t.Pad, errs[2] = id("pad_token", config.Pad)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	if eos >= 0 {
		t.EOS = []int32{eos}
	}
	path = filepath.Join(dir, "generation_config.json")
	var gen struct {
		EOS idList `json:"eos_token_id"`
	}
	if err := readJSON(path, &gen); err != nil {
		return err
	}
	for _, id := range gen.EOS {
		if t.Bytes(id) == nil {
			return fmt.Errorf("%s: eos_token_id %d is not in the vocabulary", path, id)
		}
		if !slices.Contains(t.EOS, id) {
			t.EOS = append(t.EOS, id)
		}
	}
	return nil
}

// readJSON fills v from a file; a file that does not exist leaves it as it is.
func readJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// tokenName is a token by its content: a string, an object with the key content, or null.
type tokenName string

func (n *tokenName) UnmarshalJSON(b []byte) error {
	var s *string
	if json.Unmarshal(b, &s) == nil {
		if s != nil {
			*n = tokenName(*s)
		}
		return nil
	}
	var o struct{ Content *string }
	if err := json.Unmarshal(b, &o); err != nil || o.Content == nil {
		return fmt.Errorf("a token is %s: want its text, or an object with content", b)
	}
	*n = tokenName(*o.Content)
	return nil
}

// idList is one id or several.
type idList []int32

func (l *idList) UnmarshalJSON(b []byte) error {
	var one *int32
	if json.Unmarshal(b, &one) == nil {
		if one != nil {
			*l = idList{*one}
		}
		return nil
	}
	var many []int32
	if err := json.Unmarshal(b, &many); err != nil {
		return fmt.Errorf("eos_token_id is %s: want an id or a list of ids", b)
	}
	*l = many
	return nil
}

// Files are the tokenizer's files in a Hugging Face directory, as far as a model has them.
var Files = []string{"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
	"vocab.json", "merges.txt", "chat_template.jinja", "generation_config.json"}

// CopyFiles copies the tokenizer's files into another directory, so that a checkpoint is complete.
func CopyFiles(dst, src string) error {
	for _, name := range Files {
		data, err := os.ReadFile(filepath.Join(src, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dst, name), data, 0o644)
		}
		if err != nil {
			return fmt.Errorf("copy tokenizer: %w", err)
		}
	}
	return nil
}
