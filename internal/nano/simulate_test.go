package nano

import "testing"

// TestTargets holds the world to what the nano tier needs. With 120 states × 40 dialogues a rate has a 95 % half-width
// of at most 1.96·√(.25/4800) = .014; the targets leave room for it.
func TestTargets(t *testing.T) {
	const perState = 40
	for _, r := range worlds(t) {
		for _, c := range []struct {
			name      string
			policy    Policy
			low, high float64
		}{
			{"oracle", Oracle, .75, .85},
			{"reactive", Reactive, .65, .80},
			{"corpus agent", CorpusPolicy(), .30, .42}, // a model trained on it comes out below
			{"corpus agent, greedy", Greedy(CorpusPolicy()), .45, .55},
			{"script", Script, 0, .15},
			{"random", Random, 0, .01},
		} {
			result, err := r.Simulate(c.policy, perState, 1)
			if err != nil {
				t.Fatal(err)
			}
			if rate := result.Rate(); rate < c.low || rate > c.high {
				t.Errorf("%s, %s: completes %.3f, want %.2f to %.2f", r.Scenario.Language, c.name, rate, c.low, c.high)
			}
			t.Logf("%s, %s: completes %.3f in %.1f turns", r.Scenario.Language, c.name, result.Rate(), result.Turns)
			if c.name == "corpus agent" {
				checkSpread(t, r, result)
			}
		}
	}
}

// checkSpread: a curriculum matters only where states differ: some hopeless, some at the frontier, some easy.
func checkSpread(t *testing.T, r *Rules, result Result) {
	var hopeless, frontier, easy int
	for _, n := range result.Completed {
		switch rate := share(n, result.PerState); {
		case rate < .1:
			hopeless++
		case rate > .6:
			easy++
		case rate >= .3:
			frontier++
		}
	}
	if hopeless < 15 || frontier < 20 || easy < 5 {
		t.Errorf("%s: %d hopeless, %d frontier and %d easy states for the corpus agent; want 15, 20 and 5 at least", r.Scenario.Language, hopeless, frontier, easy)
	}
	t.Logf("%s: %d states below .1, %d in .3 to .6, %d above .6", r.Scenario.Language, hopeless, frontier, easy)
}
