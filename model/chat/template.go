package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"seadtrain/model/tokenizer"
)

// Template is a recognised chat template, bound to its tokenizer.
type Template struct {
	// DefaultSystem is what the model is told when a conversation has no system message. Empty: nothing, no turn.
	DefaultSystem string
	// Thinks: a Qwen3 template, which knows <think> blocks.
	Thinks bool

	tok        *tokenizer.Tokenizer
	start, end int32   // <|im_start|>, <|im_end|>
	newline    []int32 // the "\n" between turns
}

// Load recognises the template of a Hugging Face directory: chat_template.jinja, or chat_template in
// tokenizer_config.json.
func Load(dir string, tok *tokenizer.Tokenizer) (*Template, error) {
	path := filepath.Join(dir, "chat_template.jinja")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		path = filepath.Join(dir, "tokenizer_config.json")
		text, err = fromConfig(path)
	}
	if err != nil {
		return nil, fmt.Errorf("load chat template: %w", err)
	}
	t, err := New(string(text), tok)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// fromConfig finds the template in tokenizer_config.json: a text, or a list of named ones.
func fromConfig(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var config struct {
		Template json.RawMessage `json:"chat_template"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var text string
	if json.Unmarshal(config.Template, &text) == nil && text != "" {
		return []byte(text), nil
	}
	var named []struct{ Name, Template string }
	if json.Unmarshal(config.Template, &named) == nil {
		for _, n := range named {
			if n.Name == "default" {
				return []byte(n.Template), nil
			}
		}
	}
	return nil, fmt.Errorf("%s: no chat_template, and no chat_template.jinja beside it: is this a base model?", path)
}

const nl = `(?:\\n|\n)` // a line break in a Jinja string: escaped, or as it is

var (
	// turn is the heart of ChatML: how a message is written.
	turn = regexp.MustCompile(`'<\|im_start\|>'\s*\+\s*message(?:\.role|\['role'\])\s*\+\s*'` + nl + `'\s*\+\s*message(?:\.content|\['content'\])\s*\+\s*'<\|im_end\|>` +
		`(?:'\s*\+\s*')?` + nl + `'`)
	generation    = regexp.MustCompile(`'<\|im_start\|>assistant` + nl + `'`)
	defaultSystem = regexp.MustCompile(`<\|im_start\|>system` + nl + `([^'<>{}]*)<\|im_end\|>`)
	noThought     = regexp.MustCompile(`enable_thinking is false\s*-?%\}\s*\{\{-?\s*'<think>` + nl + nl + `</think>` + nl + nl + `'`)
)

// New recognises a template by its text.
func New(text string, tok *tokenizer.Tokenizer) (*Template, error) {
	unknown := func(why string) error {
		return fmt.Errorf("the chat template is not one of the known ones (Qwen2.5, Qwen3, SmolLM2, plain ChatML): %s", why)
	}
	text = strings.ReplaceAll(text, `"`, `'`)
	if !turn.MatchString(text) || !generation.MatchString(text) || !strings.Contains(text, "add_generation_prompt") {
		return nil, unknown(`messages are not written as "<|im_start|>role\ncontent<|im_end|>\n"`)
	}
	// Text that changes with the day or the model's own begin token would be missing from ours.
	for _, s := range []string{"bos_token", "strftime", "[INST]", "<|start_header_id|>"} {
		if strings.Contains(text, s) {
			return nil, unknown(fmt.Sprintf("it contains %q", s))
		}
	}
	t := &Template{tok: tok}
	if strings.Contains(text, "<think>") {
		if !noThought.MatchString(text) || !strings.Contains(text, "last_query_index") {
			return nil, unknown("it writes <think> blocks in another way than Qwen3's")
		}
		t.Thinks = true
	}
	for _, m := range defaultSystem.FindAllStringSubmatch(text, -1) {
		s := strings.ReplaceAll(m[1], `\n`, "\n")
		if t.DefaultSystem != "" && t.DefaultSystem != s {
			return nil, unknown("it has two default system prompts")
		}
		t.DefaultSystem = s
	}
	return t, t.bind()
}

// bind looks up the tokens of the template's own text.
func (t *Template) bind() (err error) {
	var ok bool
	if t.start, ok = t.tok.ID("<|im_start|>"); !ok {
		return errors.New("the chat template needs <|im_start|>, which the tokenizer lacks")
	}
	if t.end, ok = t.tok.ID("<|im_end|>"); !ok {
		return errors.New("the chat template needs <|im_end|>, which the tokenizer lacks")
	}
	if !t.tok.Special(t.start) || !t.tok.Special(t.end) {
		return errors.New("<|im_start|> and <|im_end|> must be special tokens: else a text could contain them")
	}
	t.newline, err = t.tok.EncodeRaw("\n")
	return err
}

// EndOfTurn is the token that ends a message. It is sampled and trained; Suffix gives what follows it.
func (t *Template) EndOfTurn() int32 { return t.end }
