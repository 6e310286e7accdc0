package bench

import "context"

// Side is a contestant: this program's engine, or a peer. It holds one model, and some prompts in its cache.
type Side interface {
	// Prompts computes prompts from nothing and holds them, with room for that many more tokens each; those held before are
	// dropped.
	Prompts(ctx context.Context, prompts [][]int32, room int) (Took, error)
	// Decode goes on from the first n held prompts, greedily and past ends of text, and then holds the prompts alone again.
	Decode(ctx context.Context, n, tokens int) (Took, error)
	// Rollout plays a script.
	Rollout(ctx context.Context, s *Script, how How) (Took, error)
}

// Took is what a piece of work cost.
type Took struct {
	Seconds float64   `json:"seconds"`
	Tokens  int       `json:"tokens"` // computed by Prompts, drawn by Decode and Rollout
	IDs     [][]int32 `json:"ids"`    // drawn by Decode, by prompt
}

// Rate is tokens per second.
func (t Took) Rate() float64 { return float64(t.Tokens) / t.Seconds }

// Script is a rollout whose lengths are given: what is drawn, at temperature 1, never ends a turn.
type Script struct {
	Prompts [2][][]int32 `json:"prompts"` // by dialogue.Role, then dialogue
	Shared  [2]int       `json:"shared"`  // tokens with which all prompts of a role begin
	Before  []int32      `json:"before"`  // what a role reads in front of the other's words
	After   []int32      `json:"after"`   // and behind them
	Turns   int          `json:"turns"`   // of each role; the agent begins, and then hears nothing
	Tokens  [2]int       `json:"tokens"`  // of a turn, by role
}

// How says in which way a peer plays a script.
type How struct {
	Batch int  `json:"batch"` // dialogues at once. 0: as many as there are
	Keep  bool `json:"keep"`  // keep the KV cache between turns
}

// Dialogues is their number.
func (s *Script) Dialogues() int { return len(s.Prompts[0]) }

// Total is the number of drawn tokens.
func (s *Script) Total() int { return s.Dialogues() * s.Turns * (s.Tokens[0] + s.Tokens[1]) }

// First is the script of the first n dialogues.
func (s *Script) First(n int) *Script {
	part := *s
	for role := range part.Prompts {
		part.Prompts[role] = part.Prompts[role][:n]
	}
	return &part
}

// Length is the most tokens that a role's sequence comes to.
func (s *Script) Length(role int) int {
	n := 0
	for _, p := range s.Prompts[role] {
		n = max(n, len(p))
	}
	return n + s.Turns*(s.Tokens[0]+s.Tokens[1]+len(s.Before)+len(s.After))
}
