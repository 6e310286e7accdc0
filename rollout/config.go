package rollout

import (
	"errors"
	"fmt"
	"math"

	"seadtrain/dialogue"
	"seadtrain/internal/precision"
	"seadtrain/torch"
)

// Sampling says how a role draws its tokens. Truncations act in the order top-k, top-p, min-p.
type Sampling struct {
	// Temperature divides the logits. 0: greedy, with log-probs at temperature 1.
	Temperature float64 `toml:"temperature" json:"temperature"`
	// TopP keeps the likeliest tokens up to this mass, in (0, 1]. 1: off. 0 is refused.
	TopP float64 `toml:"top_p" json:"top_p"`
	// TopK keeps the K likeliest tokens. 0: off.
	TopK int `toml:"top_k" json:"top_k"`
	// MinP drops tokens below this share of the likeliest one's mass. 0: off.
	MinP float64 `toml:"min_p" json:"min_p"`
}

// Greedy is the sampling that always takes the likeliest token.
var Greedy = Sampling{TopP: 1}

func (s Sampling) draw(set int32, u float64) torch.Draw {
	return torch.Draw{
		Temperature: float32(s.Temperature), TopP: float32(s.TopP), MinP: float32(s.MinP), TopK: int32(s.TopK), Set: set, U: u,
	}
}

// Role is how one side generates, and its limits.
type Role struct {
	Sampling
	// MaxTokens bounds one turn, tags and end of turn included. 0 is refused.
	MaxTokens int `toml:"max_tokens" json:"max_tokens"`
	// Context bounds the role's view of a dialogue, prompt included, in tokens; a turn for which there is no room ends
	// the dialogue. 0 is refused. The KV cache is planned for it: it is what a dialogue may need at worst.
	Context int `toml:"context" json:"context"`
}

// Config of a Roller. Default gives the paper's numbers.
type Config struct {
	Agent Role `toml:"agent" json:"agent"`
	User  Role `toml:"user" json:"user"`
	// Mode is "free" or "guided": who writes the tags. Empty is refused.
	Mode dialogue.Mode `toml:"mode" json:"mode"`
	// MaxTurns bounds a dialogue, up to the constant of this name. 0: the scenario's own number.
	MaxTurns int `toml:"max_turns" json:"max_turns"`
	// MaxDialogues bounds the dialogues that run at once. 0 is refused.
	MaxDialogues int `toml:"max_dialogues" json:"max_dialogues"`
	// MaxRows bounds the tokens of one forward: decode first, then prefill. 0 is refused.
	MaxRows int `toml:"max_rows" json:"max_rows"`
	// CacheBytes bounds the KV caches of both roles together; fewer dialogues run at once if they do not fit. 0: on the CPU half of
	// the memory that is free at the start, elsewhere what MaxDialogues need.
	CacheBytes int64 `toml:"cache_bytes" json:"cache_bytes"`
	// Precision of the weights that the agent generates with: "auto" (bf16 if the model is held so or the processor has
	// instructions for it, else fp32), "fp32" or "bf16"; activations and KV cache are fp32. What is trained and evaluated
	// against stays exact: the trainer's mismatch shows the difference. CPU only: elsewhere "auto", the model as it is held.
	Precision string `toml:"precision" json:"precision"`
	// UserPrecision is that of the role-play model: "int8" as well. The KL reference is never touched.
	UserPrecision string `toml:"user_precision" json:"user_precision"`
	// BatchInvariant makes a dialogue independent of what runs beside it, bit for bit. On the CPU only.
	BatchInvariant bool `toml:"batch_invariant" json:"batch_invariant"`
	// MaxExcluded is the share of dialogues that may be excluded before Run reports ErrTooManyExcluded. 0: none may be.
	MaxExcluded float64 `toml:"max_excluded" json:"max_excluded"`
	// UserDeadline bounds one reply of a user source, in seconds of wall time; replies are then awaited side by side. 0: no
	// deadline, and the source is called in place (rules).
	UserDeadline float64 `toml:"user_deadline" json:"user_deadline"`
}

// Default is the paper's setup: agent at temperature 1.2 and top-p 0.95, user at 0.9, 0.95 and top-k 40, 500 tokens a
// turn, 8,192 of context, 480 dialogues at once, no more than a tenth excluded.
func Default() Config {
	return Config{
		Agent: Role{Sampling: Sampling{Temperature: 1.2, TopP: .95}, MaxTokens: 500, Context: 8192},
		User:  Role{Sampling: Sampling{Temperature: .9, TopP: .95, TopK: 40}, MaxTokens: 500, Context: 8192},
		Mode:  dialogue.Guided, MaxDialogues: 480, MaxRows: 512, MaxExcluded: .1,
		Precision: "auto", UserPrecision: "auto",
	}
}

// MaxTurns is the most turns that a config may ask for: the paper's limit. A scenario may have its own.
const MaxTurns = 15

// Bounds of what sizes memory: dialogues at once, and tokens of one forward or of one view.
const (
	maxDialogues = 100_000
	maxTokens    = 1 << 20
)

// Validate reports everything that is wrong at once. It changes nothing.
func (c Config) Validate() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("rollout.%s: "+format, append([]any{field}, args...)...))
	}
	for _, r := range []struct {
		name string
		role Role
	}{{"agent", c.Agent}, {"user", c.User}} {
		r.role.Sampling.check(func(field, format string, args ...any) { bad(r.name+"."+field, format, args...) })
		if r.role.MaxTokens < 1 || r.role.MaxTokens > maxTokens {
			bad(r.name+".max_tokens", "%d: want 1 to %d", r.role.MaxTokens, maxTokens)
		}
		if r.role.Context <= r.role.MaxTokens || r.role.Context > maxTokens {
			bad(r.name+".context", "%d: want more than max_tokens, which is %d, and at most %d", r.role.Context, r.role.MaxTokens, maxTokens)
		}
	}
	if c.Mode != dialogue.Free && c.Mode != dialogue.Guided {
		bad("mode", "%q: want %q or %q", c.Mode, dialogue.Free, dialogue.Guided)
	}
	if c.MaxTurns < 0 || c.MaxTurns > MaxTurns {
		bad("max_turns", "%d: want 1 to %d, or 0 (the scenario's)", c.MaxTurns, MaxTurns)
	}
	if c.MaxDialogues < 1 || c.MaxDialogues > maxDialogues {
		bad("max_dialogues", "%d: want 1 to %d", c.MaxDialogues, maxDialogues)
	}
	if c.MaxRows < 1 || c.MaxRows > maxTokens {
		bad("max_rows", "%d: want 1 to %d", c.MaxRows, maxTokens)
	}
	if c.CacheBytes < 0 {
		bad("cache_bytes", "%d: want 0 (by the memory that is free) or more", c.CacheBytes)
	}
	if err := precision.CheckIn(precision.AgentGeneration, c.Precision); err != nil {
		bad("precision", "%w: the agent is trained on what it generates", err)
	}
	if err := precision.CheckIn(precision.Generation, c.UserPrecision); err != nil {
		bad("user_precision", "%w", err)
	}
	if !(c.MaxExcluded >= 0 && c.MaxExcluded <= 1) {
		bad("max_excluded", "%v: want a share, 0 to 1", c.MaxExcluded)
	}
	if !(c.UserDeadline >= 0 && c.UserDeadline <= 1e6) {
		bad("user_deadline", "%v: want 0 (none) to a million seconds", c.UserDeadline)
	}
	return errors.Join(errs...)
}

// Validate reports everything that is wrong with the sampling.
func (s Sampling) Validate() error {
	var errs []error
	s.check(func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("sampling.%s: "+format, append([]any{field}, args...)...))
	})
	return errors.Join(errs...)
}

func (s Sampling) check(bad func(field, format string, args ...any)) {
	if !(s.Temperature >= 0) || math.IsInf(s.Temperature, 0) {
		bad("temperature", "%v: want 0 (greedy) or more", s.Temperature)
	}
	if s.Temperature > 0 && s.Temperature < 1e-3 {
		bad("temperature", "%v: want 0 (greedy) or at least 0.001", s.Temperature)
	}
	if !(s.TopP > 0 && s.TopP <= 1) {
		bad("top_p", "%v: want more than 0, at most 1 (off)", s.TopP)
	}
	if s.TopK < 0 {
		bad("top_k", "%d: want 0 (off) or more", s.TopK)
	}
	if !(s.MinP >= 0 && s.MinP <= 1) {
		bad("min_p", "%v: want 0 (off) to 1", s.MinP)
	}
}
