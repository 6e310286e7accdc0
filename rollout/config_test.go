package rollout

import (
	"strings"
	"testing"

	"seadtrain/dialogue"
	"seadtrain/internal/doctor"
)

func TestConfigReportsEverything(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	c := Config{
		Agent: Role{Sampling: Sampling{Temperature: -1, TopP: 0, TopK: -2, MinP: 2}, MaxTokens: 0, Context: -1},
		User:  Role{Sampling: Sampling{Temperature: 1e-9, TopP: 1.5}, MaxTokens: 10, Context: 10},
		Mode:  "open", MaxTurns: -1, CacheBytes: -1, MaxExcluded: 1.5, UserDeadline: -1,
		Precision: "int8", UserPrecision: "fp8",
	}
	err := c.Validate()
	if err == nil {
		t.Fatal("nothing is wrong with it")
	}
	for _, field := range []string{
		"agent.temperature", "agent.top_p", "agent.top_k", "agent.min_p", "agent.max_tokens", "agent.context", "user.temperature",
		"user.top_p", "user.context", "mode", "max_turns", "max_dialogues", "max_rows", "cache_bytes", "max_excluded", "user_deadline",
		"precision", "user_precision",
	} {
		if !strings.Contains(err.Error(), "rollout."+field+": ") {
			t.Errorf("%s is not mentioned", field)
		}
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 18 {
		t.Errorf("%d errors, want 18:\n%v", n, err)
	}
	for field, spoil := range map[string]func(*Config){ // what sizes memory has an upper bound
		"max_turns: 16: want 1 to 15": func(c *Config) { c.MaxTurns = MaxTurns + 1 },
		"max_dialogues":               func(c *Config) { c.MaxDialogues = 1 << 40 },
		"max_rows":                    func(c *Config) { c.MaxRows = 1 << 40 },
		"agent.context":               func(c *Config) { c.Agent.Context = 1 << 40 },
		"user.max_tokens":             func(c *Config) { c.User.MaxTokens = 1 << 40 },
	} {
		c := Default()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "rollout."+field) {
			t.Errorf("too large: %v, want %s", err, field)
		}
	}
}

// New says what does not fit before anything runs.
func TestNewErrors(t *testing.T) {
	tok, tmpl := byteTokenizer(t, deskWords...)
	m := markovModel(t, tok, agentChain, 13, 1)
	parts := Parts{Scenario: desk(), Tokenizer: tok, Template: tmpl, Agent: m, Frozen: m}
	for what, change := range map[string]func(c *Config){
		"does not hold the prompt":                            func(c *Config) { c.User.Context, c.User.MaxTokens = 80, 70 },
		"cannot hold the protocol's tags":                     func(c *Config) { c.Mode, c.Agent.MaxTokens = dialogue.Guided, 9 },
		"rollout.cache_bytes: 1000000: one":                   func(c *Config) { c.CacheBytes = 1_000_000 },
		"agent.context: 4000: the model holds 2048 positions": func(c *Config) { c.Agent.Context = 4000 },
		"rollout.max_rows":                                    func(c *Config) { c.MaxRows = 0 },
	} {
		cfg := deskConfig(dialogue.Free)
		change(&cfg)
		if r, err := New(cfg, parts); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("want an error with %q, got %v", what, err)
			if r != nil {
				r.Close()
			}
		}
	}
}

// The cache's memory bounds the dialogues that run at once; each of them always fits.
func TestCacheBytes(t *testing.T) {
	cfg := deskConfig(dialogue.Free)
	// A block of 32 tokens: 2 layers × 2 (k, v) × 2 heads × 16 × 32 × 4 bytes = 16,384. A dialogue of 1,200 + 1,200 tokens: 37 + 38
	// blocks, for one of the agent's prompt is shared; once more 3 + 3 for prompts and padding.
	cfg.CacheBytes = 4_000_000
	d := setDesk(t, cfg)
	if n := d.roller.Dialogues(); n != 3 {
		t.Errorf("%d dialogues at once in 4 MB, want 3: (4,000,000 - 6·16,384) / (75·16,384) = 3.2", n)
	}
	res := d.run(t, Request{Profiles: deskProfiles(d.parts.Scenario, 3), Group: 3, Seed: 1})
	if len(res.Episodes) != 9 {
		t.Errorf("%d dialogues", len(res.Episodes))
	}
}

// Without a bound the free memory is one: waves, with the same dialogues.
func TestFreeMemoryBoundsTheCache(t *testing.T) {
	cfg := deskConfig(dialogue.Free)
	q := Request{Group: 3, Seed: 1}
	wide := setDesk(t, cfg)
	q.Profiles = deskProfiles(wide.parts.Scenario, 3)
	want := wide.run(t, q)
	t.Cleanup(func() { availableMemory = doctor.AvailableMemory })
	availableMemory = func() int64 { return 8_000_000 } // half of it: the bound of TestCacheBytes
	narrow := seatDesk(t, cfg, wide.parts)
	if n := narrow.roller.Dialogues(); n != 3 || wide.roller.Dialogues() <= 3 {
		t.Errorf("%d dialogues at once, want 3; %d with all memory", n, wide.roller.Dialogues())
	}
	if got := narrow.roller.CacheBytes(); got > 4_000_000 || got < 3_000_000 {
		t.Errorf("a cache of %d bytes within 4 MB", got)
	}
	sameEpisodes(t, "three at once", narrow.run(t, q).Episodes, want.Episodes)
	availableMemory = func() int64 { return 1_600_000 }
	if _, err := New(cfg, wide.parts); err == nil || !strings.Contains(err.Error(), "half of the free memory: 800000: one dialogue of 1200 + 1200 tokens needs") {
		t.Errorf("no memory for one dialogue: %v", err)
	}
}
