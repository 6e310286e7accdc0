package nano

import (
	"testing"

	"seadtrain/scenarios"
)

// worlds gives the nano world in both languages.
func worlds(t *testing.T) []*Rules {
	t.Helper()
	var all []*Rules
	for _, language := range []string{"en", "zh"} {
		scenario, err := scenarios.Load("nano", language)
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewRules(scenario)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

func TestNewRulesRefusesAnotherScene(t *testing.T) {
	scenario, err := scenarios.Load("outbound", "en")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewRules(scenario); err == nil {
		t.Error("the outbound scene, whose behaviours the nano world does not know, was taken")
	}
}

// TestScenarioSpeaksThought: the English profile uses the words of the private thought, and the library brings every
// worry of the world.
func TestScenarioSpeaksThought(t *testing.T) {
	for _, r := range worlds(t) {
		if got := len(r.Scenario.Behaviours); got != int(worries)-1 {
			t.Errorf("%s: %d behaviours, want %d", r.Scenario.Language, got, worries-1)
		}
		if r.Scenario.Language != "en" {
			continue
		}
		for i, words := range [][]string{wordsC[:], wordsE[:], wordsT[:]} {
			for level, w := range words {
				if got := r.Scenario.Dimensions[i].Labels[level]; got != w {
					t.Errorf("%s %d: %q in the scenario, %q in the thought", r.Scenario.Dimensions[i].Name, level, got, w)
				}
			}
		}
	}
}
