package chat

import (
	"errors"
	"fmt"
	"strings"
)

// Role is who wrote a message.
type Role string

const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is one turn.
type Message struct {
	Role    Role   `json:"role"`
	Content string `json:"content"`
}

// Options of rendering; the zero value is what rollouts use.
type Options struct {
	// Thinking leaves the thought to the model (Qwen3 only). False: the generation prompt ends with an empty thought.
	Thinking bool
}

const emptyThought = "<think>\n\n</think>\n\n"

// Render gives the tokens of a conversation, equal to apply_chat_template's. With addGenerationPrompt it ends where the
// assistant's next turn begins.
func (t *Template) Render(messages []Message, addGenerationPrompt bool, opts Options) ([]int32, error) {
	if len(messages) == 0 {
		return nil, errors.New("render chat: no messages")
	}
	var ids []int32
	if messages[0].Role != System && t.DefaultSystem != "" {
		var err error
		if ids, err = t.turn(ids, System, t.DefaultSystem); err != nil {
			return nil, err
		}
	}
	query := lastQuery(messages)
	for i, m := range messages {
		content := m.Content
		if t.Thinks && m.Role == Assistant {
			content = rethink(content, i > query, i == len(messages)-1)
		}
		var err error
		if ids, err = t.turn(ids, m.Role, content); err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
	}
	if addGenerationPrompt {
		prefix, err := t.prefix(Assistant, opts)
		if err != nil {
			return nil, err
		}
		ids = append(ids, prefix...)
	}
	return ids, nil
}

// lastQuery is the index of the last user message that is not a tool's answer, as Qwen3's template finds it.
func lastQuery(messages []Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		tool := strings.HasPrefix(m.Content, "<tool_response>") && strings.HasSuffix(m.Content, "</tool_response>")
		if m.Role == User && !tool {
			return i
		}
	}
	return len(messages) - 1
}

// rethink is what Qwen3's template makes of an assistant's message: the thought is kept after the last query only.
func rethink(content string, afterQuery, last bool) string {
	const open, shut = "<think>", "</think>"
	thought := ""
	if before, _, found := strings.Cut(content, shut); found {
		before = strings.TrimRight(before, "\n")
		if i := strings.LastIndex(before, open); i >= 0 {
			before = before[i+len(open):]
		}
		thought = strings.TrimLeft(before, "\n")
		content = strings.TrimLeft(content[strings.LastIndex(content, shut)+len(shut):], "\n")
	}
	if afterQuery && (last || thought != "") {
		return "<think>\n" + strings.Trim(thought, "\n") + "\n</think>\n\n" + strings.TrimLeft(content, "\n")
	}
	return content
}

// turn appends a whole turn. Role and content are encoded in one go, as Hugging Face does.
func (t *Template) turn(ids []int32, role Role, content string) ([]int32, error) {
	if err := role.check(); err != nil {
		return nil, err
	}
	text, err := t.tok.Encode(string(role) + "\n" + content)
	if err != nil {
		return nil, err
	}
	ids = append(append(ids, t.start), text...)
	return append(append(ids, t.end), t.newline...), nil
}

func (r Role) check() error {
	switch r {
	case System, User, Assistant:
		return nil
	}
	return fmt.Errorf("role %q: want system, user or assistant", string(r))
}

// Opening is the beginning of a growing conversation: the system turn, or nothing if system is empty and the model has
// no default.
func (t *Template) Opening(system string) ([]int32, error) {
	if system == "" {
		system = t.DefaultSystem
	}
	if system == "" {
		return nil, nil
	}
	return t.turn(nil, System, system)
}

// Prefix is what stands in front of a role's content, with an empty thought for a Qwen3 assistant.
func (t *Template) Prefix(role Role) ([]int32, error) { return t.prefix(role, Options{}) }

func (t *Template) prefix(role Role, opts Options) ([]int32, error) {
	if err := role.check(); err != nil {
		return nil, err
	}
	text := "<|im_start|>" + string(role) + "\n"
	if t.Thinks && role == Assistant && !opts.Thinking {
		text += emptyThought
	}
	return t.tok.EncodeRaw(text)
}

// Suffix is what follows a role's content: the end-of-turn token and the line break after it.
func (t *Template) Suffix() []int32 { return append([]int32{t.end}, t.newline...) }

// Turn is a whole turn of a growing conversation: prefix, content, suffix.
func (t *Template) Turn(role Role, content string) ([]int32, error) {
	ids, err := t.Prefix(role)
	if err != nil {
		return nil, err
	}
	text, err := t.tok.Encode(content)
	if err != nil {
		return nil, err
	}
	return append(append(ids, text...), t.Suffix()...), nil
}
