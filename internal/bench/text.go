package bench

import (
	"seadtrain/dialogue"
	"seadtrain/internal/hfdir"
	"seadtrain/model/chat"
	"seadtrain/scenarios"
)

// Text is a supply of real tokens: prompts and behaviours of the outbound scene.
type Text struct {
	ids           []int32
	before, after []int32 // around what a role hears
}

// ReadText encodes the supply with a model's tokenizer.
func ReadText(b *hfdir.Bundle) (*Text, error) {
	scn, err := scenarios.Load("outbound", "en")
	if err != nil {
		return nil, err
	}
	words, _ := dialogue.UserPrompt(scn, dialogue.Profile{})
	words = dialogue.AgentPrompt(scn) + "\n" + words
	for _, b := range scn.Behaviours {
		words += "\n" + b.Text
	}
	t := &Text{}
	if t.ids, err = b.Tokenizer.Encode(words); err != nil {
		return nil, err
	}
	hears, err := b.Chat.Prefix(chat.User)
	if err != nil {
		return nil, err
	}
	speaks, err := b.Chat.Prefix(chat.Assistant)
	if err != nil {
		return nil, err
	}
	t.before = append(b.Chat.Suffix(), hears...)
	t.after = append(b.Chat.Suffix(), speaks...)
	return t, nil
}

// cut gives n tokens from a place on, going round at the end.
func (t *Text) cut(from, n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = t.ids[(from+i)%len(t.ids)]
	}
	return out
}

// Prompts are different prompts of one length, none of which begins like another one.
func (t *Text) Prompts(n, length int) [][]int32 {
	out := make([][]int32, n)
	for i := range out {
		out[i] = t.cut(i*61, length)
	}
	return out
}

// Script makes a rollout of so many dialogues. The agents' prompts are all the same; a user's ends in its own profile.
func (t *Text) Script(dialogues, turns int, prompts, tokens [2]int) *Script {
	own := prompts[1] / 8 // of a user's prompt
	s := &Script{Shared: [2]int{prompts[0], prompts[1] - own}, Before: t.before, After: t.after, Turns: turns, Tokens: tokens}
	for d := range dialogues {
		s.Prompts[0] = append(s.Prompts[0], t.cut(0, prompts[0]))
		s.Prompts[1] = append(s.Prompts[1], append(t.cut(prompts[0], prompts[1]-own), t.cut(700+d*61, own)...))
	}
	return s
}
