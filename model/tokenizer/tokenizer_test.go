package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// small is a byte-level BPE with ids 0–255 for the bytes, 256 "he", 257 "llo", 258 "hello", then the added tokens.
func small() map[string]any {
	vocab := map[string]int{}
	for b := range 256 {
		vocab[string(runeOf[b])] = b
	}
	vocab["he"], vocab["ll"], vocab["llo"], vocab["hello"] = 256, 257, 258, 259
	added := func(id int, s string, special bool) map[string]any {
		return map[string]any{"id": id, "content": s, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": special}
	}
	return map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "normalizer": nil, "post_processor": nil,
		"added_tokens":  []any{added(260, "<|end|>", true), added(261, "<|im|>", true), added(262, "<|im|>x", true), added(263, "<tag>", false)},
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
		"decoder":       map[string]any{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
		"model": map[string]any{"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil,
			"end_of_word_suffix": nil, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
			"vocab": vocab, "merges": []string{"h e", "l l", "ll o", "he llo"}},
	}
}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func load(t *testing.T, v any) *Tokenizer {
	t.Helper()
	tok, err := Parse(marshal(v))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tok.Close)
	return tok
}

func TestEncode(t *testing.T) {
	tok := load(t, small())
	raw := func(s string) []int32 { // the ids of a text that no merge applies to
		var ids []int32
		for _, b := range []byte(s) {
			ids = append(ids, int32(b))
		}
		return ids
	}
	for _, tc := range []struct {
		name, text   string
		safe, asOurs []int32 // asOurs nil: an error
	}{
		{"empty", "", nil, []int32{}},
		{"merged", "hello", []int32{259}, []int32{259}},
		{"special", "<|end|>", raw("<|end|>"), []int32{260}},
		{"special inside", "hello<|end|>he", append(append([]int32{259}, raw("<|end|>")...), 256), []int32{259, 260, 256}},
		{"longest special", "<|im|>x<|im|>", raw("<|im|>x<|im|>"), []int32{262, 261}},
		{"tag", "he<tag>", []int32{256, 263}, []int32{256, 263}},
		{"half a special", "<|end", raw("<|end"), raw("<|end")},
		{"NUL", "he\x00he", append(append([]int32{256}, raw("\uFFFD")...), 256), nil},
		{"invalid UTF-8", "\xff\xc3(", append(raw("\uFFFD\uFFFD"), '('), nil},
		{"surrogate", "\xed\xa0\x80", raw("\uFFFD\uFFFD\uFFFD"), nil},
		{"accents", "é", raw("é"), raw("é")},
	} {
		got, err := tok.Encode(tc.text)
		if err != nil || !slices.Equal(got, tc.safe) {
			t.Errorf("%s: Encode gave %v %v, want %v", tc.name, got, err, tc.safe)
		}
		got, err = tok.EncodeRaw(tc.text)
		if (tc.asOurs == nil) != (err != nil) || !slices.Equal(got, tc.asOurs) {
			t.Errorf("%s: EncodeRaw gave %v %v, want %v", tc.name, got, err, tc.asOurs)
		}
	}
}

// Truncation and padding that a training script left in the file do not touch our texts.
func TestTruncationIsIgnored(t *testing.T) {
	j := small()
	j["truncation"] = map[string]any{"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
	if ids, err := load(t, j).Encode("abcdef"); err != nil || len(ids) != 6 {
		t.Errorf("%v %v", ids, err)
	}
}

func TestEncodeCapsLength(t *testing.T) {
	tok := load(t, small())
	if ids, err := tok.Encode(strings.Repeat("a", MaxTextBytes)); err != nil || len(ids) != MaxTextBytes {
		t.Errorf("at the limit: %d ids, %v", len(ids), err)
	}
	if _, err := tok.Encode(strings.Repeat("a", MaxTextBytes+1)); !errors.Is(err, ErrTooLong) {
		t.Errorf("above the limit: %v", err)
	}
}

// A vocabulary without some bytes: the library drops them, this package replaces them.
func TestMissingBytesDoNotVanish(t *testing.T) {
	without := func(missing ...int) map[string]any {
		j := small()
		vocab := maps.Clone(j["model"].(map[string]any)["vocab"].(map[string]int))
		for _, b := range missing {
			delete(vocab, string(runeOf[b]))
			vocab[fmt.Sprintf("unused%d", b)] = b
		}
		j["model"].(map[string]any)["vocab"] = vocab
		return j
	}
	tok := load(t, without(7, 0xF5))
	if got, _ := tok.Encode("he\ahe"); tok.Decode(got, false) != "he\uFFFDhe" {
		t.Errorf("a bell became %q", tok.Decode(got, false))
	}
	if _, err := tok.EncodeRaw("\a"); err == nil {
		t.Error("a bell in a template: no error")
	}
	tok = load(t, without(7, 0xBF)) // U+FFFD is EF BF BD
	if got, _ := tok.Encode("\a"); tok.Decode(got, false) != "?" {
		t.Errorf("without U+FFFD a bell became %q", tok.Decode(got, false))
	}
	if _, err := Parse(marshal(without(0xBF, '?'))); err == nil || !strings.Contains(err.Error(), `neither U+FFFD nor "?"`) {
		t.Errorf("no replacement: %v", err)
	}
}

func TestQueries(t *testing.T) {
	tok := load(t, small())
	if tok.VocabSize() != 264 || string(tok.Bytes(259)) != "hello" || string(tok.Bytes(' ')) != " " || tok.Bytes(264) != nil || tok.Bytes(-1) != nil {
		t.Error("table is wrong")
	}
	if !tok.Special(260) || tok.Special(263) || tok.Special('a') || !tok.Special(264) {
		t.Error("special tokens are wrong")
	}
	if got := tok.Containing('<'); !slices.Equal(got, []int32{'<', 260, 261, 262, 263}) {
		t.Errorf("tokens with '<': %v", got)
	}
	if id, ok := tok.ID("<tag>"); !ok || id != 263 {
		t.Error("<tag> not found")
	}
	if _, ok := tok.ID("hello"); ok {
		t.Error("hello is no added token")
	}
}

// Broken files give errors; the two that would abort the process must not reach the library.
func TestParseRefuses(t *testing.T) {
	set := func(change func(j, model map[string]any)) []byte {
		j := small()
		change(j, j["model"].(map[string]any))
		return marshal(j)
	}
	addID := func(id int, content string) []byte {
		return set(func(j, _ map[string]any) {
			j["added_tokens"].([]any)[3].(map[string]any)["id"] = id
			j["added_tokens"].([]any)[3].(map[string]any)["content"] = content
		})
	}
	for _, tc := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "unexpected end"},
		{"not JSON", []byte("{"), "unexpected end"},
		{"NUL", []byte("{\"a\":\"\x00\"}"), "NUL"},
		{"escaped NUL", []byte(`{"model":{"type":"a\u0000b"}}`), "NUL"},
		{"prefix", set(func(_, m map[string]any) { m["continuing_subword_prefix"] = strings.Repeat("#", 999) }), "continuing_subword_prefix"},
		{"WordPiece", set(func(_, m map[string]any) { m["type"] = "WordPiece" }), `"WordPiece"`},
		{"no vocabulary", set(func(_, m map[string]any) { delete(m, "vocab") }), "model.vocab"},
		{"SentencePiece", set(func(_, m map[string]any) { m["byte_fallback"] = true }), "byte_fallback"},
		{"not UTF-8", bytes.Replace(marshal(small()), []byte("trim_of"), []byte("trim\x8fof"), 1), "not valid UTF-8"},
		{"dropout", set(func(_, m map[string]any) { m["dropout"] = 0.1 }), "model.dropout is 0.1"},
		{"lower case", set(func(j, _ map[string]any) { j["normalizer"] = map[string]any{"type": "Lowercase"} }), "normalizer"},
		{"Metaspace", set(func(j, _ map[string]any) { j["pre_tokenizer"] = map[string]any{"type": "Metaspace"} }), "pre_tokenizer"},
		{"prefix space", set(func(j, _ map[string]any) { j["pre_tokenizer"].(map[string]any)["add_prefix_space"] = true }), "loses or adds characters"},
		{"nested sequence", set(func(j, _ map[string]any) {
			j["decoder"] = map[string]any{"type": "Sequence", "decoders": []any{map[string]any{"type": "Sequence", "decoders": []any{map[string]any{"type": "ByteLevel"}}}}}
		}), "decoder is not ByteLevel"},
		{"decoder", set(func(j, _ map[string]any) { j["decoder"] = nil }), "decoder is not ByteLevel"},
		{"negative id", set(func(_, m map[string]any) { m["vocab"].(map[string]int)["he"] = -1 }), "id -1"},
		{"absurd id", set(func(_, m map[string]any) { m["vocab"].(map[string]int)["he"] = 1 << 40 }), "id 1099511627776"},
		{"two tokens, one id", set(func(_, m map[string]any) { m["vocab"].(map[string]int)["he"] = 3 }), "id 3 belongs to"},
		{"merge of nothing", set(func(_, m map[string]any) { m["merges"] = []string{"q q"} }), "qq"},
		{"added on a taken id", addID(42, "<tag>"), "id 42, which belongs to another token"},
		{"added twice", addID(263, "<|end|>"), "occurs twice"},
		{"added with another id than in the vocabulary", addID(263, "hello"), "in model.vocab it has 259"},
		{"added after a hole, which the library would close", addID(300, "<tag>"), "token 300"},
		{"lstrip", set(func(j, _ map[string]any) { j["added_tokens"].([]any)[0].(map[string]any)["lstrip"] = true }), "lstrip"},
	} {
		if _, err := Parse(tc.data); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
	if err := refuseNUL([]byte(`{"regex":"\\u0000"}`)); err != nil {
		t.Errorf("an escaped backslash before u0000 is no NUL: %v", err)
	}
}

func TestStream(t *testing.T) {
	tok := load(t, small())
	euro := []int32{0xE2, 0x82, 0xAC}
	for _, tc := range []struct {
		ids    []int32
		pushes []string
		flush  string
	}{
		{append([]int32{259}, euro...), []string{"hello", "", "", "€"}, ""},
		{[]int32{0xE2, 0x82}, []string{"", ""}, "\uFFFD"},
		{[]int32{0xE2, 'a'}, []string{"", "\uFFFDa"}, ""},
		{[]int32{0xE2, 0x82, 259}, []string{"", "", "\uFFFDhello"}, ""},
		{[]int32{0x80, 0x80}, []string{"\uFFFD", "\uFFFD"}, ""},
		{[]int32{0xE2, 260, 0x82, 0xAC}, []string{"", "", "", "€"}, ""}, // a skipped special token does not cut a character
		{[]int32{0xE2, 9999}, []string{"", "\uFFFD\uFFFD"}, ""},
	} {
		s := tok.NewStream(true)
		whole := ""
		for i, id := range tc.ids {
			got := s.Push(id)
			whole += got
			if got != tc.pushes[i] {
				t.Errorf("%v: push %d gave %q, want %q", tc.ids, i, got, tc.pushes[i])
			}
		}
		end := s.Flush()
		if end != tc.flush {
			t.Errorf("%v: flush gave %q, want %q", tc.ids, end, tc.flush)
		}
		if got := tok.Decode(tc.ids, true); got != whole+end {
			t.Errorf("%v: Decode gave %q, the stream %q", tc.ids, got, whole+end)
		}
	}
	if got := tok.Decode([]int32{260, 263}, false); got != "<|end|><tag>" {
		t.Errorf("Decode with special tokens: %q", got)
	}
}

func TestLoadIDs(t *testing.T) {
	for _, tc := range []struct {
		config, gen string
		bos, pad    int32
		eos         []int32
		err         string
	}{
		{"", "", -1, -1, nil, ""},
		{`{"eos_token":"<|im|>","bos_token":null,"pad_token":{"content":"<|end|>","special":true}}`, `{"eos_token_id":[260,261]}`, -1, 260, []int32{261, 260}, ""},
		{`{"bos_token":"<|end|>"}`, `{"eos_token_id":260}`, 260, -1, []int32{260}, ""},
		{`{"eos_token":"hello"}`, "", 0, 0, nil, `eos_token is "hello", which is not among the added tokens`},
		{`{"eos_token":7}`, "", 0, 0, nil, "a token is 7"},
		{"", `{"eos_token_id":[264]}`, 0, 0, nil, "eos_token_id 264 is not in the vocabulary"},
	} {
		dir := t.TempDir()
		os.WriteFile(filepath.Join(dir, "tokenizer.json"), marshal(small()), 0o644)
		for name, text := range map[string]string{"tokenizer_config.json": tc.config, "generation_config.json": tc.gen} {
			if text != "" {
				os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
			}
		}
		tok, err := Load(dir)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%+v: got %v", tc, err)
			}
			continue
		}
		if err != nil || tok.BOS != tc.bos || tok.Pad != tc.pad || !slices.Equal(tok.EOS, tc.eos) {
			t.Errorf("%+v: got %+v %v", tc, tok, err)
			continue
		}
		tok.Close()
		out := t.TempDir()
		if err := CopyFiles(out, dir); err != nil {
			t.Fatal(err)
		}
		a, _ := os.ReadDir(dir)
		if b, _ := os.ReadDir(out); len(a) != len(b) {
			t.Errorf("%d of %d files copied", len(b), len(a))
		}
	}
}

// qwen is the real Qwen2.5 tokenizer; `make test` fetches it.
func qwen(t *testing.T) *Tokenizer {
	t.Helper()
	tok, err := Load("../../third_party/models/qwen2.5-tokenizer")
	if err != nil {
		t.Fatalf("%v (make test-models fetches it)", err)
	}
	t.Cleanup(tok.Close)
	return tok
}

func TestQwenTableEqualsTheLibrary(t *testing.T) {
	tok := qwen(t)
	if tok.VocabSize() != 151665 || !slices.Equal(tok.EOS, []int32{151645}) || tok.Pad != 151643 || tok.BOS != -1 {
		t.Fatalf("%d tokens, EOS %v, pad %d, BOS %d", tok.VocabSize(), tok.EOS, tok.Pad, tok.BOS)
	}
	partial := 0
	for id := range int32(tok.VocabSize()) {
		b := tok.Bytes(id)
		if slices.Contains(b, 0) {
			continue // the binding returns C strings
		}
		got, err := tok.lib.DecodeErr([]uint32{uint32(id)}, false)
		if err != nil || got != tok.Decode([]int32{id}, false) {
			t.Fatalf("id %d: library %q %v, table %q", id, got, err, b)
		}
		if !utf8.Valid(b) {
			partial++
		}
	}
	if partial != 1448 {
		t.Errorf("%d ids are not whole characters, 1448 are known", partial)
	}
}

// Random bytes, special tokens mixed in: Encode never yields a special token, and what it yields decodes to the text.
func TestQwenEncodeIsSafeAndLossless(t *testing.T) {
	tok := qwen(t)
	pieces := []string{"<|im_end|>", "<|im_start|>", "<|endoftext|>", "<tool_call>", "你好", " hello", "\n\n", "1234", "🙂", "\x00", "\xff", " ", "\u00a0", "ﷺ", "e", "<|"}
	for i := range 2000 {
		var text string
		for n := i; n > 0; n /= len(pieces) {
			text += pieces[n%len(pieces)]
		}
		ids, err := tok.Encode(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			if tok.Special(id) {
				t.Fatalf("%q: special token %d", text, id)
			}
		}
		if got, want := tok.Decode(ids, false), tok.clean(text); got != want {
			t.Fatalf("%q decodes to %q", want, got)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	tok := load(t, small())
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			text := strings.Repeat("hello", g+1)
			for range 500 {
				if ids, err := tok.Encode(text); err != nil || tok.Decode(ids, false) != text {
					t.Errorf("%q: %v %v", text, ids, err)
					return
				}
			}
		}()
	}
	wg.Wait()
}

// Whatever the file holds, Parse returns an error or a working tokenizer; it never ends the process.
func FuzzParse(f *testing.F) {
	f.Add(marshal(small()))
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"decoder":{"type":"ByteLevel"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := Parse(data)
		if err != nil {
			return
		}
		defer tok.Close()
		if ids, err := tok.Encode("a<|end|> hello"); err == nil {
			tok.Decode(ids, false)
		}
	})
}
