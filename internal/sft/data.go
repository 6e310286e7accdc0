package sft

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"seadtrain/dialogue"
	"seadtrain/model/chat"
	"seadtrain/model/tokenizer"
	"seadtrain/train"
)

// message is one turn of a conversation in a data file.
type message struct {
	Role    chat.Role `json:"role"`
	Content string    `json:"content"`
	// Loss says whether the turn is trained; absent: if the assistant wrote it.
	Loss *bool `json:"loss"`
}

// Read reads a JSONL file of conversations, {"messages": [{"role", "content", "loss"?}, …]} a line; other keys are
// ignored. It makes one sample of each: the tokens that rollouts would give the model, with loss on content and end of
// turn of the trained turns. maxTokens bounds a sample.
func Read(ctx context.Context, path string, tok *tokenizer.Tokenizer, tpl *chat.Template, maxTokens int) ([]*train.Sample, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read conversations: %w", err)
	}
	defer f.Close()
	r := &reader{tok: tok, chat: tpl, maxTokens: maxTokens}
	const block = 4096 // lines that are tokenised side by side
	var samples []*train.Sample
	var lines []dialogue.Line
	flush := func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		part, err := r.block(lines)
		samples, lines = append(samples, part...), lines[:0]
		return err
	}
	for line, err := range dialogue.Lines(f, path) {
		if err != nil {
			return nil, errors.Join(flush(), err)
		}
		if len(line.Text) == 0 {
			continue
		}
		line.Text = bytes.Clone(line.Text)
		if lines = append(lines, line); len(lines) == block {
			if err := flush(); err != nil {
				return nil, err
			}
		}
	}
	if err := flush(); err != nil {
		return nil, err
	}
	if len(samples) == 0 {
		return nil, fmt.Errorf("%s: no conversations", path)
	}
	return samples, nil
}

type reader struct {
	tok       *tokenizer.Tokenizer
	chat      *chat.Template
	maxTokens int
}

// block makes samples of lines, on all cores, in their order. The error is the first line's that has one.
func (r *reader) block(lines []dialogue.Line) ([]*train.Sample, error) {
	out := make([]*train.Sample, len(lines))
	errs := make([]error, len(lines))
	var wait sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for i := w; i < len(lines); i += workers {
				out[i], errs[i] = r.sample(lines[i].Where, lines[i].Text)
			}
		}()
	}
	wait.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", lines[i].Where, err)
		}
	}
	return out, nil
}

func (r *reader) sample(id string, line []byte) (*train.Sample, error) {
	var conversation struct {
		Messages []message `json:"messages"`
	}
	if err := json.Unmarshal(line, &conversation); err != nil {
		return nil, fmt.Errorf(`want {"messages": [{"role", "content"}, …]}: %w`, dialogue.ExplainJSON(err))
	}
	messages := conversation.Messages
	if len(messages) == 0 {
		return nil, errors.New(`want {"messages": [{"role", "content"}, …]} with at least one message`)
	}
	s := &train.Sample{ID: id, Temperature: 1}
	system := ""
	if messages[0].Role == chat.System {
		system = messages[0].Content
		if messages[0].Loss != nil && *messages[0].Loss {
			return nil, errors.New("message 0: a system message cannot be trained")
		}
		messages = messages[1:]
	}
	ids, err := r.chat.Opening(system)
	if err != nil {
		return nil, err
	}
	s.Tokens, s.Loss = ids, make([]bool, len(ids), 2*len(ids))
	for i, m := range messages {
		if err := r.turn(s, m); err != nil {
			return nil, fmt.Errorf("message %d: %w", i+len(conversation.Messages)-len(messages), err)
		}
	}
	if len(s.Tokens) > r.maxTokens {
		return nil, fmt.Errorf("%d tokens, at most %d are allowed", len(s.Tokens), r.maxTokens)
	}
	return s, nil
}

// turn appends one turn; prefix and the line break after the end of turn are given, never trained.
func (r *reader) turn(s *train.Sample, m message) error {
	prefix, err := r.chat.Prefix(m.Role)
	if err != nil {
		return err
	}
	content, err := r.tok.Encode(m.Content)
	if err != nil {
		return err
	}
	loss := m.Role == chat.Assistant
	if m.Loss != nil {
		loss = *m.Loss
	}
	add := func(ids []int32, loss bool) {
		for _, id := range ids {
			s.Tokens, s.Loss = append(s.Tokens, id), append(s.Loss, loss)
		}
	}
	suffix := r.chat.Suffix()
	add(prefix, false)
	add(content, loss)
	add(suffix[:1], loss)
	add(suffix[1:], false)
	return nil
}
