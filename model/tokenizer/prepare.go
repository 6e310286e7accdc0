package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// prepare checks the parts of a tokenizer.json that steer the library and returns the table and the text to hand over.
// The library ends the process on some malformed parts, found by fuzzing: NUL in a string that it quotes in an error,
// invalid UTF-8 or a broken object in the decoder or normalizer, a BPE prefix longer than a merge. So only what
// byte-level BPE needs is passed on, and nothing that would change a text behind our back: no truncation, padding or
// post-processing, no dropout.
func prepare(data []byte) (*table, []byte, error) {
	if err := refuseNUL(data); err != nil {
		return nil, nil, err
	}
	if !utf8.Valid(data) {
		return nil, nil, errors.New("the file is not valid UTF-8")
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, nil, err
	}
	var f file
	for key, into := range map[string]any{"added_tokens": &f.Added, "decoder": &f.Decoder, "model": &f.Model, "normalizer": &f.Normalizer, "pre_tokenizer": &f.PreTokenizer} {
		if raw[key] == nil {
			continue
		}
		if err := json.Unmarshal(raw[key], into); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	if err := f.check(); err != nil {
		return nil, nil, err
	}
	t, err := f.table()
	if err != nil {
		return nil, nil, err
	}
	out := map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "post_processor": nil,
		"decoder":    map[string]any{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
		"normalizer": f.Normalizer, "pre_tokenizer": raw["pre_tokenizer"], "added_tokens": raw["added_tokens"], "model": raw["model"],
	}
	text, err := json.Marshal(out)
	return t, text, err
}

// component is a step of the pipeline, as far as we look at it.
type component struct {
	Type          string      `json:"type"`
	Decoders      []component `json:"decoders,omitempty"`
	Normalizers   []component `json:"normalizers,omitempty"`
	PreTokenizers []component `json:"pretokenizers,omitempty"`
}

// check refuses what is not byte-level BPE.
func (f *file) check() error {
	m := &f.Model
	switch {
	case m.Type != "" && m.Type != "BPE":
		return fmt.Errorf("model.type is %q: only byte-level BPE is supported", m.Type)
	case len(m.Vocab) == 0:
		return errors.New("model.vocab is missing or empty")
	case m.Prefix != "" || m.Suffix != "":
		return errors.New("model.continuing_subword_prefix or end_of_word_suffix is set: only byte-level BPE is supported")
	case m.ByteFallback:
		return errors.New("model.byte_fallback is true (a SentencePiece vocabulary): only byte-level BPE is supported")
	case m.Dropout != 0:
		return fmt.Errorf("model.dropout is %v: encoding would be random", m.Dropout)
	case !f.Decoder.only([]string{"ByteLevel"}):
		return errors.New("decoder is not ByteLevel: only byte-level BPE is supported")
	case f.Normalizer != nil && !f.Normalizer.only([]string{"NFC", "NFD", "NFKC", "NFKD"}):
		return errors.New("normalizer: only NFC, NFD, NFKC and NFKD are supported")
	case !f.PreTokenizer.only([]string{"ByteLevel", "Split", "Digits", "Punctuation"}):
		return errors.New("pre_tokenizer: only ByteLevel, Split, Digits and Punctuation are supported")
	}
	return nil
}

// only reports whether c is one of the types, or a sequence of them (not of sequences: the depth stays bounded).
func (c *component) only(types []string) bool {
	if c == nil {
		return false
	}
	for _, t := range types {
		if c.Type == t {
			return true
		}
	}
	children := append(append(append([]component{}, c.Decoders...), c.Normalizers...), c.PreTokenizers...)
	for _, child := range children {
		if child.Type == "Sequence" || !child.only(types) {
			return false
		}
	}
	return c.Type == "Sequence" && len(children) > 0
}

// refuseNUL rejects a NUL in any string of the JSON, raw or as \u0000: no byte-level vocabulary needs one.
func refuseNUL(data []byte) error {
	err := errors.New("a NUL character in the file: not a valid tokenizer.json")
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case 0:
			return err
		case '\\':
			if bytes.HasPrefix(data[i+1:], []byte("u0000")) {
				return err
			}
			i++ // whatever is escaped, also a backslash
		}
	}
	return nil
}
