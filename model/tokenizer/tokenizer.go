package tokenizer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	hf "github.com/daulet/tokenizers"

	_ "seadtrain/torch" // its linker flags say where the library is
)

// MaxTextBytes is the longest text that is encoded in one call.
const MaxTextBytes = 1 << 20

// ErrTooLong is returned for longer ones.
var ErrTooLong = fmt.Errorf("text is longer than %d bytes", MaxTextBytes)

// Tokenizer is a loaded tokenizer.json and the ids that the files beside it name.
type Tokenizer struct {
	BOS, Pad int32   // -1: none
	EOS      []int32 // ends of a generation: tokenizer_config.json's eos_token first, then generation_config.json's

	lib     *hf.Tokenizer
	table   *table
	replace string // what stands for characters that cannot be encoded
}

// Load reads the tokenizer of a Hugging Face directory: tokenizer.json and, if there, tokenizer_config.json and
// generation_config.json.
func Load(dir string) (*Tokenizer, error) {
	path := filepath.Join(dir, "tokenizer.json")
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer: %w", err)
	}
	t, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := t.loadIDs(dir); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Parse makes a tokenizer from the text of a tokenizer.json alone; it has no EOS, BOS and Pad.
func Parse(data []byte) (*Tokenizer, error) {
	table, text, err := prepare(data)
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{BOS: -1, Pad: -1, table: table}
	for _, r := range []string{"\uFFFD", "?"} {
		if table.encodable(r) {
			t.replace = r
			break
		}
	}
	if t.replace == "" {
		return nil, errors.New(`the vocabulary can write neither U+FFFD nor "?"`)
	}
	// With this option special tokens in a text stay plain text; EncodeRaw finds them itself.
	if t.lib, err = hf.FromBytes(text, hf.WithEncodeSpecialTokens()); err != nil {
		return nil, err
	}
	if err := t.check(); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// check compares the table with the library: it renumbers inconsistent ids without an error.
func (t *Tokenizer) check() error {
	if n := int(t.lib.VocabSize()); n != t.table.used {
		return fmt.Errorf("the file has %d tokens, the library counts %d", t.table.used, n)
	}
	compare := func(id int32) error {
		b := t.table.bytes[id]
		if b == nil || bytes.IndexByte(b, 0) >= 0 { // the binding returns C strings
			return nil
		}
		got, err := t.lib.DecodeErr([]uint32{uint32(id)}, false)
		if want := lossy(b); err != nil || got != want {
			return fmt.Errorf("token %d is %q in the file, %q in the library (%v)", id, want, got, err)
		}
		return nil
	}
	for _, id := range t.table.added {
		if err := compare(id); err != nil {
			return err
		}
	}
	for id := 0; id < len(t.table.bytes); id += 1 + len(t.table.bytes)/1000 { // a sample: a shift by one shows everywhere
		if err := compare(int32(id)); err != nil {
			return err
		}
	}
	// A pre-tokenizer that removes or adds characters shows here.
	probe := t.clean("Say:  hello,\n\tworld! 123 <x>你好 ")
	ids, err := t.encode(nil, probe)
	if got := t.Decode(ids, false); err != nil || got != probe {
		return fmt.Errorf("the text %q comes back as %q (%v): the pre_tokenizer loses or adds characters", probe, got, err)
	}
	return nil
}

// Close frees the library's memory. The tokenizer must not be used afterwards.
func (t *Tokenizer) Close() { t.lib.Close() }

// Encode gives the ids of a text that a person or a model wrote. The result never contains a special token; added
// tokens that are not special (tags) are recognised. What cannot be encoded becomes U+FFFD; see the package comment.
func (t *Tokenizer) Encode(text string) ([]int32, error) {
	return t.encode(nil, t.clean(text))
}

// EncodeRaw gives the ids of text that this program wrote, such as a chat template's: special tokens are recognised.
func (t *Tokenizer) EncodeRaw(text string) ([]int32, error) {
	if c := t.clean(text); c != text {
		return nil, fmt.Errorf("template text %q: NUL, invalid UTF-8 or a character outside the vocabulary", text)
	}
	var ids []int32
	var err error
	start := 0
	for i := 0; i < len(text); {
		tok := t.addedAt(text[i:])
		if tok == "" {
			i++
			continue
		}
		if ids, err = t.encode(ids, text[start:i]); err != nil {
			return nil, err
		}
		ids = append(ids, t.table.added[tok])
		i += len(tok)
		start = i
	}
	return t.encode(ids, text[start:])
}

// addedAt is the longest added token that text begins with, or "".
func (t *Tokenizer) addedAt(text string) string {
	for _, tok := range t.table.longest[text[0]] {
		if strings.HasPrefix(text, tok) {
			return tok
		}
	}
	return ""
}

// encode appends the ids of a clean text.
func (t *Tokenizer) encode(ids []int32, text string) ([]int32, error) {
	if text == "" {
		return ids, nil
	}
	if len(text) > MaxTextBytes {
		return nil, fmt.Errorf("%w: %d", ErrTooLong, len(text))
	}
	enc, err := t.lib.EncodeWithOptionsErr(text, false)
	if err != nil {
		return nil, fmt.Errorf("encode %.40q: %w", text, err)
	}
	for _, id := range enc.IDs {
		if int(id) >= len(t.table.bytes) || t.table.special[id] {
			return nil, fmt.Errorf("encode %.40q: the library made token %d of it, which is special or unknown", text, id)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}

// clean replaces NUL, invalid UTF-8 and characters whose bytes the vocabulary lacks.
func (t *Tokenizer) clean(text string) string {
	if utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 && t.table.encodable(text) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == 0 || r == utf8.RuneError && n == 1 || !t.table.encodable(text[i:i+n]) {
			b.WriteString(t.replace)
		} else {
			b.WriteString(text[i : i+n])
		}
		i += n
	}
	return b.String()
}

// encodable reports whether every byte has a token to fall back on.
func (t *table) encodable(text string) bool {
	for i := range len(text) {
		if t.missing[text[i]] {
			return false
		}
	}
	return true
}

// VocabSize is the highest id in use plus one. A model's vocabulary may be larger: its last rows then mean nothing.
func (t *Tokenizer) VocabSize() int { return len(t.table.bytes) }

// Bytes are the bytes an id stands for, not to be changed. Nil: the id is not in use.
func (t *Tokenizer) Bytes(id int32) []byte {
	if id < 0 || int(id) >= len(t.table.bytes) {
		return nil
	}
	return t.table.bytes[id]
}

// Special reports whether an id is a special token (or not in use at all: such ids must never be sampled either).
func (t *Tokenizer) Special(id int32) bool {
	return t.Bytes(id) == nil || t.table.special[id]
}

// ID is the id of an added token by its content.
func (t *Tokenizer) ID(content string) (int32, bool) {
	id, ok := t.table.added[content]
	return id, ok
}

// Containing lists the ids whose bytes contain c, ascending.
func (t *Tokenizer) Containing(c byte) []int32 {
	var ids []int32
	for id, b := range t.table.bytes {
		if bytes.IndexByte(b, c) >= 0 {
			ids = append(ids, int32(id))
		}
	}
	return ids
}
