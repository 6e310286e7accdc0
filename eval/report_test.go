package eval

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"seadtrain/dialogue"
	"seadtrain/scenarios"
)

// outcome is a dialogue of a profile, 10 turns if it succeeds.
func outcome(s *dialogue.Scenario, profile int, success bool) dialogue.Episode {
	ep := dialogue.Episode{Turns: 4, End: dialogue.EndHungUp, FinalStatus: -1}
	if success {
		ep = dialogue.Episode{Turns: 10, End: dialogue.EndAgreed, FinalStatus: 1}
	}
	if profile >= 0 {
		ep.Profile = s.NewProfile(s.StateAt(profile%s.States()), []string{num(profile)})
	}
	return ep
}

func TestReportJSON(t *testing.T) {
	s := outbound(t)
	text := func(eps ...dialogue.Episode) string {
		b, err := json.Marshal(Evaluate(s, eps, Options{}))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	null := `{"value":null,"low":null,"high":null,"n":0}`
	all := `{"cr":` + null + `,"att":` + null + `,"adt":` + null + `,"upa":` + null + `,"ei":` + null + `,"ti":` + null +
		`,"ci":` + null + `,"fpr":` + null + `,"scr":` + null + `}`
	want := `{"published":` + all + `,"normalised":` + all + `,"dialogues":0,"profiles":0,"unknown":0,"ends":{},"excluded":{}}`
	if got := text(); got != want {
		t.Errorf("no dialogues:\n%s\nwant\n%s", got, want)
	}
	lost := dialogue.Episode{End: dialogue.EndUserMalformed, FinalStatus: 1}
	want = strings.Replace(want, `"excluded":{}`, `"excluded":{"user_malformed":2}`, 1)
	if got := text(lost, lost); got != want {
		t.Errorf("excluded dialogues only:\n%s\nwant\n%s", got, want)
	}
}

func TestCounts(t *testing.T) {
	s := outbound(t)
	eps := []dialogue.Episode{
		outcome(s, 1, true), outcome(s, 1, false), outcome(s, 2, true), outcome(s, -1, false), outcome(s, -1, false),
		{End: dialogue.EndInfrastructure},
	}
	blank := outcome(s, -1, true)
	blank.Profile = s.NewProfile(nil, nil) // the ablation's: says nothing, so it joins nothing
	eps = append(eps, blank, blank)
	r := Evaluate(s, eps, Options{})
	if r.Dialogues != 7 || r.Profiles != 2 || r.Unknown != 4 || *r.Published.CR.Value != 4./7 || r.Published.CR.N != 7 {
		t.Errorf("%+v", r)
	}
	if !reflect.DeepEqual(r.Ends, map[dialogue.End]int{"agreed": 4, "hung_up": 3}) ||
		!reflect.DeepEqual(r.Excluded, map[dialogue.End]int{"infrastructure": 1}) {
		t.Errorf("ends %v, excluded %v", r.Ends, r.Excluded)
	}
	if !reflect.DeepEqual(r, Evaluate(s, eps, Options{})) {
		t.Error("the same dialogues and seed give another report")
	}
}

func TestDegenerateIntervals(t *testing.T) {
	s := outbound(t)
	one := Evaluate(s, []dialogue.Episode{outcome(s, 1, true)}, Options{})
	low, high := Wilson(1, 1)
	if c := one.Published.CR; *c.Value != 1 || *c.Low != low || *c.High != high {
		t.Errorf("a single success: %v, want Wilson's [%.3f, %.3f]", c, low, high)
	}
	if a := one.Published.ATT; *a.Value != 10 || a.Low != nil || a.High != nil || a.N != 1 {
		t.Errorf("a single ATT: %v of %d", a, a.N)
	}
	// Eight dialogues of one profile are one cluster: Wilson for n = 1, not 8.
	var same []dialogue.Episode
	for i := range 8 {
		same = append(same, outcome(s, 1, i < 4))
	}
	low, high = wilson(.5, 1)
	if c := Evaluate(s, same, Options{}).Published.CR; *c.Low != low || *c.High != high {
		t.Errorf("one profile: %v, want [%.3f, %.3f]", c, low, high)
	}
	// No success at all: no ATT, and a completion rate that is not surely 0.
	var none []dialogue.Episode
	for i := range 50 {
		none = append(none, outcome(s, i, false))
	}
	r := Evaluate(s, none, Options{}).Published
	if _, high = Wilson(0, 50); *r.CR.Low != 0 || *r.CR.High != high || r.ATT.Value != nil || r.ATT.N != 0 {
		t.Errorf("no successes: CR %v, ATT %v of %d", r.CR, r.ATT, r.ATT.N)
	}
}

func TestWilson(t *testing.T) {
	for _, c := range []struct {
		k, n      int
		low, high float64
	}{
		// k = 0: low 0, high z²/(n+z²) = 3.8415/13.8415. n = 100, p = .5: .5 ± 1.96 √(.0025 + z²/40000)/(1+z²/100)
		{0, 10, 0, .277533}, {10, 10, .722467, 1}, {50, 100, .403832, .596168}, {0, 0, 0, 1},
	} {
		low, high := Wilson(c.k, c.n)
		if !(math.Abs(low-c.low) <= 1e-6) || !(math.Abs(high-c.high) <= 1e-6) {
			t.Errorf("%d of %d: [%.6f, %.6f], want [%.6f, %.6f]", c.k, c.n, low, high, c.low, c.high)
		}
	}
}

func TestQuantile(t *testing.T) {
	v := []float64{0, 10, 20, 30, 40}
	for q, want := range map[float64]float64{0: 0, .5: 20, .025: 1, .975: 39, 1: 40} { // q × 4 places × 10
		if got := quantile(v, q); !(math.Abs(got-want) <= 1e-12) {
			t.Errorf("quantile %g: %g, want %g", q, got, want)
		}
	}
	if got := quantile(v[1:2], .975); got != 10 {
		t.Errorf("of one value: %g", got)
	}
}

// Intervals cover the truth about as often as they say. 60 profiles × 4 dialogues, profiles of uniformly distributed
// difficulty, completion .5, turns 10 or 4: 600 sets; the standard error of a coverage of .95 is √(.95·.05/600) = .009.
// Forgetting the clusters must show: their share of the variance makes naive intervals √(1 + 3/3) too narrow.
func TestCoverage(t *testing.T) {
	s := outbound(t)
	rng := rand.New(rand.NewPCG(11, 12))
	const sets = 600
	var byProfile, naive, turns int
	for range sets {
		var eps, loose []dialogue.Episode
		for p := range 60 {
			difficulty := rng.Float64()
			for range 4 {
				success := rng.Float64() > difficulty
				eps = append(eps, outcome(s, p, success))
				loose = append(loose, outcome(s, -1, success))
			}
		}
		covers := func(i Interval, truth float64) int {
			if *i.Low <= truth && truth <= *i.High {
				return 1
			}
			return 0
		}
		opts := Options{Resamples: 400, Seed: rng.Uint64()}
		r := Evaluate(s, eps, opts)
		byProfile += covers(r.Published.CR, .5)
		turns += covers(r.Published.ADT, 7)
		naive += covers(Evaluate(s, loose, opts).Published.CR, .5)
	}
	for what, n := range map[string]int{"completion": byProfile, "turns": turns} {
		if share := float64(n) / sets; share < .92 || share > .975 {
			t.Errorf("%s: coverage %.3f, want about .95", what, share)
		}
	}
	if share := float64(naive) / sets; share > .9 {
		t.Errorf("without clusters: coverage %.3f: then profiles do not matter in this test", share)
	}
}

func TestRecordsReadBack(t *testing.T) {
	s := outbound(t)
	ep := outcome(s, 5, true)
	for i := range 3 {
		a, u := say(dialogue.Agent, [3]int{i, 1, 2}, i, 0), say(dialogue.User, [3]int{i + 1, 2, 2}, 0, i/2)
		a.Content, u.Content = s.Agent.Protocol.Render(a.Values), s.User.Protocol.Render(u.Values)
		ep.Messages = append(ep.Messages, a, u)
	}
	bad := outcome(s, 6, false)
	bad.End = dialogue.EndAgentMalformed
	bad.Messages = []dialogue.Message{{Role: dialogue.Agent, Content: "<stage>0</stage>", Fault: dialogue.FaultMissingTag}}
	eps := []dialogue.Episode{ep, bad, outcome(s, 7, false)}
	path := t.TempDir() + "/episodes.jsonl"
	if err := dialogue.WriteEpisodes(path, eps, dialogue.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	back, err := dialogue.ReadEpisodes(path)
	if err != nil {
		t.Fatal(err)
	}
	want := Evaluate(s, eps, Options{})
	if got := Evaluate(s, back, Options{}); !reflect.DeepEqual(got, want) || want.Published.UPA.N != 1 {
		t.Errorf("read back: %+v, want %+v", got, want)
	}
}

func TestTables(t *testing.T) {
	s := outbound(t)
	var eps []dialogue.Episode
	for i := range 300 {
		eps = append(eps, outcome(s, i%150, i%3 == 0))
	}
	r := Evaluate(s, eps, Options{})
	lines := strings.Split(strings.TrimRight(r.Table(), "\n"), "\n")
	if len(lines) != 1+int(metrics)+1 || !strings.Contains(lines[1], "0.333 [0.") || !strings.Contains(lines[4], "–") {
		t.Errorf("table:\n%s", r.Table())
	}
	a := Analyse(s, eps, DefaultBands())
	c := Compare(s, eps, eps, Options{})
	for _, line := range strings.Split(r.Table()+a.Grid()+c.Table(), "\n") {
		if n := len([]rune(line)); n > 130 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
}

// A report of 2,400 dialogues of unknown profile, the most clusters there can be: 2,000 resamples.
func BenchmarkEvaluate(b *testing.B) {
	s, err := scenarios.Load("outbound", "en")
	if err != nil {
		b.Fatal(err)
	}
	var eps []dialogue.Episode
	for i := range 2400 {
		eps = append(eps, outcome(s, -1, i%3 == 0))
	}
	for b.Loop() {
		Evaluate(s, eps, Options{})
	}
}
