package tokenizer

import (
	"fmt"
	"slices"
)

// maxID bounds the table's memory against a file with one absurd id.
const maxID = 1 << 22

// table is what tokenizer.json says about single tokens.
type table struct {
	bytes   [][]byte         // by id; nil: the id is not in use
	special []bool           // by id
	added   map[string]int32 // content of the added tokens, special or not
	longest [256][]string    // added tokens by first byte, longest first
	missing [256]bool        // bytes that no token stands for alone: BPE would drop them
	used    int              // ids in use
}

// file is the part of tokenizer.json that concerns us; the library reads the rest.
type file struct {
	Added []struct {
		ID         int64  `json:"id"`
		Content    string `json:"content"`
		SingleWord bool   `json:"single_word"`
		LStrip     bool   `json:"lstrip"`
		RStrip     bool   `json:"rstrip"`
		Special    bool   `json:"special"`
	}
	Decoder, Normalizer, PreTokenizer *component

	Model struct {
		Type         string           `json:"type"`
		Dropout      float64          `json:"dropout"`
		Prefix       string           `json:"continuing_subword_prefix"`
		Suffix       string           `json:"end_of_word_suffix"`
		ByteFallback bool             `json:"byte_fallback"`
		Vocab        map[string]int64 `json:"vocab"`
	}
}

// byteOf maps the printable characters that byte-level BPE writes bytes as, back to the bytes. Printable Latin-1 stands
// for itself; the 68 others follow from U+0100 in order.
var byteOf, runeOf = func() (map[rune]byte, [256]rune) {
	back, forth := map[rune]byte{}, [256]rune{}
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if !(b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE) {
			r = next
			next++
		}
		back[r], forth[b] = byte(b), r
	}
	return back, forth
}()

// table collects the tokens and checks their ids.
func (f *file) table() (*table, error) {
	last := int64(-1)
	for s, id := range f.Model.Vocab {
		if id < 0 || id > maxID {
			return nil, fmt.Errorf("model.vocab: token %q has id %d: want 0 to %d", s, id, maxID)
		}
		last = max(last, id)
	}
	for _, a := range f.Added {
		if a.ID < 0 || a.ID > maxID {
			return nil, fmt.Errorf("added_tokens: %q has id %d: want 0 to %d", a.Content, a.ID, maxID)
		}
		last = max(last, a.ID)
	}
	t := &table{bytes: make([][]byte, last+1), special: make([]bool, last+1), added: map[string]int32{}}
	for s, id := range f.Model.Vocab {
		if t.bytes[id] != nil {
			return nil, fmt.Errorf("model.vocab: id %d belongs to %q and to another token", id, s)
		}
		t.bytes[id] = tokenBytes(s)
	}
	for b := range 256 {
		_, ok := f.Model.Vocab[string(runeOf[b])]
		t.missing[b] = !ok
	}
	return t, t.add(f)
}

// add takes in the added tokens. They may be in the vocabulary too, but then under the same id: the library would
// silently give them another.
func (t *table) add(f *file) error {
	for i, a := range f.Added {
		switch id, inVocab := f.Model.Vocab[a.Content]; {
		case a.Content == "":
			return fmt.Errorf("added_tokens[%d] is empty", i)
		case a.SingleWord || a.LStrip || a.RStrip:
			return fmt.Errorf("added_tokens: %q has single_word, lstrip or rstrip: not supported", a.Content)
		case inVocab && id != a.ID:
			return fmt.Errorf("added_tokens: %q has id %d, in model.vocab it has %d", a.Content, a.ID, id)
		case !inVocab && t.bytes[a.ID] != nil:
			return fmt.Errorf("added_tokens: %q has id %d, which belongs to another token", a.Content, a.ID)
		}
		if _, dup := t.added[a.Content]; dup {
			return fmt.Errorf("added_tokens: %q occurs twice", a.Content)
		}
		t.bytes[a.ID] = []byte(a.Content)
		t.special[a.ID] = a.Special
		t.added[a.Content] = int32(a.ID)
		t.longest[a.Content[0]] = append(t.longest[a.Content[0]], a.Content)
	}
	for _, list := range t.longest {
		slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
	}
	for _, b := range t.bytes {
		if b != nil {
			t.used++
		}
	}
	return nil
}

// tokenBytes are the bytes behind a token as the vocabulary writes it. A token with a character outside the alphabet
// stands for its own UTF-8, as in the library's decoder.
func tokenBytes(s string) []byte {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		c, ok := byteOf[r]
		if !ok {
			return []byte(s)
		}
		b = append(b, c)
	}
	return b
}
