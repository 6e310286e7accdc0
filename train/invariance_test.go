package train

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"seadtrain/dialogue"
	"seadtrain/model"
	"seadtrain/torch"
)

// What must not change a gradient: each case changes one thing about how the same step is computed.
func TestGradientsDoNotDependOn(t *testing.T) {
	for _, g := range stepGoldens(t) {
		base, want := grads(t, g.trainer(t, g.config(), model.Options{}), g.episodes())
		for _, c := range []struct {
			name     string
			config   func(*Config)
			episodes func([]*dialogue.Episode) []*dialogue.Episode
		}{
			{"micro-batches of one dialogue", func(c *Config) { c.MicroTokens = 1 }, nil},
			{"micro-batches of 50 tokens", func(c *Config) { c.MicroTokens = 50 }, nil},
			{"one row of logits at a time", func(c *Config) { c.HeadRows = 1 }, nil},
			{"seven rows of logits at a time", func(c *Config) { c.HeadRows = 7 }, nil},
			{"recomputation", func(c *Config) { c.Recompute = Layer }, nil},
			{"recomputation in micro-batches", func(c *Config) { c.Recompute, c.MicroTokens, c.HeadRows = Layer, 30, 5 }, nil},
			{"the order of dialogues", nil, func(e []*dialogue.Episode) []*dialogue.Episode {
				rand.New(rand.NewPCG(1, 1)).Shuffle(len(e), func(i, j int) { e[i], e[j] = e[j], e[i] })
				return e
			}},
			{"the order of packing", func(c *Config) { c.MicroTokens = 40 }, func(e []*dialogue.Episode) []*dialogue.Episode {
				slices.Reverse(e)
				return e
			}},
			{"the numbers of groups", nil, func(e []*dialogue.Episode) []*dialogue.Episode {
				for _, x := range e {
					x.Group = 40 - 3*x.Group
				}
				return e
			}},
		} {
			cfg, episodes := g.config(), g.episodes()
			if c.config != nil {
				c.config(&cfg)
			}
			if c.episodes != nil {
				episodes = c.episodes(episodes)
			}
			met, got := grads(t, g.trainer(t, cfg, model.Options{}), episodes)
			for name := range want {
				if d := apart(got[name], want[name]); !(d <= 1e-5) {
					t.Errorf("%s: %s: the gradient of %s is off by %.2g of its norm", g.Policy, c.name, name, d)
				}
			}
			for _, m := range [][2]float64{{met.Loss, base.Loss}, {met.KL, base.KL}, {met.Entropy, base.Entropy}, {met.RatioMean, base.RatioMean},
				{met.RatioMax, base.RatioMax}, {met.ClipFraction, base.ClipFraction}, {float64(met.TrainedTokens), float64(base.TrainedTokens)}} {
				if !(math.Abs(m[0]-m[1]) <= 1e-5) {
					t.Errorf("%s: %s: a metric is %v, was %v", g.Policy, c.name, m[0], m[1])
				}
			}
		}
	}
}

// What stands at a token that is not trained, other than the token itself, says nothing; nor does a last token that is
// not trained, since nothing follows it. Bit for bit.
func TestUntrainedTargetsChangeNothing(t *testing.T) {
	g := stepGoldens(t)[0]
	episodes := g.episodes()
	for _, e := range episodes { // an untrained end
		a := &e.Agent
		a.Tokens, a.Loss, a.Sets, a.LogProbs = append(a.Tokens, 5), append(a.Loss, false), append(a.Sets, 0), append(a.LogProbs, 0)
	}
	_, want := grads(t, g.trainer(t, g.config(), model.Options{}), episodes)
	for i, e := range episodes {
		a := &e.Agent
		for j := range a.Tokens {
			if !a.Loss[j] {
				a.LogProbs[j], a.Sets[j] = -7, int32(1+(i+j)%3)
			}
		}
		a.Tokens[len(a.Tokens)-1] = 90
	}
	_, got := grads(t, g.trainer(t, g.config(), model.Options{}), episodes)
	for name := range want {
		if !slices.Equal(got[name], want[name]) {
			t.Errorf("the gradient of %s changed", name)
		}
	}
	for _, e := range episodes { // the same change at a trained token does count
		for j, on := range e.Agent.Loss {
			if on {
				e.Agent.LogProbs[j] -= 0.1
			}
		}
	}
	_, got = grads(t, g.trainer(t, g.config(), model.Options{}), episodes)
	if slices.Equal(got["model.norm.weight"], want["model.norm.weight"]) {
		t.Error("a trained token's log-prob at sampling changes nothing: this test sees nothing")
	}
}

func TestPack(t *testing.T) {
	sample := func(id string, loss ...bool) *Sample {
		s := &Sample{ID: id, Loss: loss, Temperature: 0.5}
		for i := range loss {
			s.Tokens = append(s.Tokens, int32(10*len(loss)+i))
		}
		return s
	}
	a, b, c, none := sample("a", false, true, true, false), sample("b", false, false, true), sample("c", false, true), sample("none", false, false)
	a.Sets = []int32{7, 0, 3, 7}
	got := Pack([]*Sample{a, none, b, c}, 5)
	if len(got) != 2 || len(got[0].Samples) != 2 || got[1].Samples[0] != c { // a puts in 2 tokens, and 2 + b's 3 fit; of b's 3 go in 2, and 4 + c's 2 do not fit
		t.Fatalf("%d batches", len(got))
	}
	x := got[0]
	for _, v := range []struct {
		name      string
		got, want any
	}{
		{"ids", x.IDs, []int32{40, 41, 30, 31}}, // the last trained token is predicted, never read
		{"pos", x.Pos, []int32{0, 1, 0, 1}},
		{"rows", x.Rows, []int32{0, 1, 3}},
		{"targets", x.Targets.IDs, []int32{41, 42, 32}},
		{"sets", x.Targets.Set, []int32{0, 3, 0}},
		{"temperature", x.Targets.Temperature, []float32{.5, .5, .5}},
		{"sample", x.Sample, []int32{0, 0, 1}},
		{"token", x.Token, []int32{1, 2, 2}},
	} {
		if !equal(v.got, v.want) {
			t.Errorf("%s: %v, want %v", v.name, v.got, v.want)
		}
	}
	if !slices.Equal(x.Cu, []int64{0, 2, 4}) {
		t.Errorf("offsets %v", x.Cu)
	}
	if got := Pack([]*Sample{a, b}, 1); len(got) != 2 {
		t.Errorf("%d batches: a sample larger than a batch stands alone", len(got))
	}
}

func equal(a, b any) bool {
	switch a := a.(type) {
	case []int32:
		return slices.Equal(a, b.([]int32))
	case []float32:
		return slices.Equal(a, b.([]float32))
	}
	return false
}

// Every use of the engine gives its handles back.
func TestStepLeavesNoHandles(t *testing.T) {
	g := stepGoldens(t)[0]
	tr := g.trainer(t, g.config(), model.Options{})
	grads(t, tr, g.episodes())
	before := torch.Live()
	grads(t, tr, g.episodes())
	if n := torch.Live(); n != before {
		t.Errorf("%d handles, %d before the step", n, before)
	}
}
