package curriculum

import (
	"math"
	"strings"
	"testing"

	"seadtrain/dialogue"
)

func TestValidate(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Errorf("default: %v", err)
	}
	bad := map[string]func(*Config){ // the field the message must name
		"profiles":         func(c *Config) { c.Profiles = 0 },
		"sampler":          func(c *Config) { c.Sampler = "band" },
		"support":          func(c *Config) { c.Support = "" },
		"low":              func(c *Config) { c.Low = .55 }, // above the target
		"weights.too_hard": func(c *Config) { c.Weights.TooHard = -1 },
		"weights.ideal":    func(c *Config) { c.Weights.Ideal = 0 },
		"weights.too_easy": func(c *Config) { c.Weights.TooEasy = math.NaN() },
		"weights.unjudged": func(c *Config) { c.Weights.Unjudged = math.Inf(1) },
		"floor":            func(c *Config) { c.Floor = 0 },
		"max_tilt":         func(c *Config) { c.MaxTilt = -1 },
		"gain":             func(c *Config) { c.Gain = 2 },
		"period":           func(c *Config) { c.Period = 0 },
		"decay":            func(c *Config) { c.Decay = 0 },
		"min_count":        func(c *Config) { c.MinCount = -1 },
		"smoothing":        func(c *Config) { c.Smoothing = -1 },
		"min_behaviours":   func(c *Config) { c.MaxBehaviours = 4 },
		"pool":             func(c *Config) { c.Pool = 0 },
	}
	all := Default()
	for field, spoil := range bad {
		c := Default()
		spoil(&c)
		spoil(&all)
		err := c.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), "curriculum."+field+": ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s spoilt: error %v", field, err)
		}
	}
	for field, spoil := range map[string]func(*Config){ // what sizes memory has an upper bound
		"profiles": func(c *Config) { c.Profiles = 1 << 40 }, "pool": func(c *Config) { c.Pool = 1 << 40 }, "period": func(c *Config) { c.Period = 1 << 40 },
	} {
		c := Default()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), "curriculum."+field+": ") {
			t.Errorf("%s too large: %v", field, err)
		}
	}
	if lines := strings.Count(all.Validate().Error(), "\n") + 1; lines != len(bad) {
		t.Errorf("%d faults reported of %d", lines, len(bad))
	}
}

func TestPublishedSupport(t *testing.T) {
	cfg := Default()
	cfg.Support = Published
	s := world(12)
	p, err := cfg.prior(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		state dialogue.State
		want  float64
	}{
		{dialogue.State{1, 1, 1}, .03}, // .3 × .5 × .2
		{dialogue.State{2, 2, 3}, .06}, // .4 × .5 × .3
		{dialogue.State{0, 1, 1}, 0},
		{dialogue.State{1, 3, 1}, 0},
		{dialogue.State{1, 1, 5}, 0},
	} {
		if got := p[s.StateIndex(c.state)]; !(math.Abs(got-c.want) <= 1e-15) {
			t.Errorf("state %v: %g, want %g", c.state, got, c.want)
		}
	}
	sum, states := 0.0, 0
	for _, v := range p {
		sum += v
		if v > 0 {
			states++
		}
	}
	if !(math.Abs(sum-1) <= 1e-12) || states != 3*2*4 {
		t.Errorf("sum %g over %d states, want 1 over 24", sum, states)
	}
	s.Dimensions[1].Name = "patience"
	if _, err := cfg.prior(s); err == nil || !strings.Contains(err.Error(), "patience") {
		t.Errorf("other dimensions: error %v", err)
	}
}
