package curriculum

import (
	"reflect"
	"strings"
	"testing"

	"seadtrain/scenarios"
)

func TestHeldOut(t *testing.T) {
	for _, library := range []int{12, 40} {
		s := world(library)
		set, err := HeldOut(s, 250, 9)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := HeldOut(s, 250, 9)
		if len(set) != 250 || !reflect.DeepEqual(set, again) {
			t.Fatalf("%d profiles, same seed same set: %v", len(set), reflect.DeepEqual(set, again))
		}
		perState := map[string]int{}
		ids := map[string]bool{}
		held := map[string]bool{}
		for _, p := range set {
			if err := s.CheckProfile(p); err != nil {
				t.Error(err)
			}
			perState[p.State.String()]++
			ids[p.ID] = true
			held[strings.Join(p.Behaviours, " ")] = true
		}
		if len(perState) != 120 || len(ids) != 250 {
			t.Errorf("%d states of 120, %d different profiles of 250", len(perState), len(ids))
		}
		for st, n := range perState {
			if n < 2 || n > 3 { // 250 = 2 × 120 + 10
				t.Errorf("state %s comes %d times", st, n)
			}
		}
		for seed := range uint64(3) {
			c, err := New(Default(), s, seed)
			if err != nil {
				t.Fatal(err)
			}
			for _, pool := range c.pools {
				for _, comb := range pool {
					if held[strings.Join(comb.ids(s), " ")] {
						t.Fatalf("seed %d trains on held-out combination %v", seed, comb.ids(s))
					}
				}
			}
		}
	}
	if _, err := HeldOut(world(12), 0, 1); err == nil {
		t.Error("an empty set")
	}
	few, err := HeldOut(world(2), 360, 1) // three combinations in all: some state must repeat its profile
	if err != nil || len(few) != 360 {
		t.Errorf("%d profiles of a tiny library, error %v", len(few), err)
	}
}

// Every scenario that ships has full pools and a held-out set of two profiles per state, the same in every language.
func TestShippedScenarios(t *testing.T) {
	sets := map[string][]string{} // by scenario name: states and behaviours
	for _, ref := range scenarios.List() {
		s, err := scenarios.Load(ref.Name, ref.Language)
		if err != nil {
			t.Fatal(err)
		}
		c, err := New(Default(), s, 1)
		if err != nil {
			t.Errorf("%v: %v", ref, err)
			continue
		}
		least := 200
		for _, pool := range c.pools {
			least = min(least, len(pool))
		}
		if least < 10 {
			t.Errorf("%v: a state has only %d combinations", ref, least)
		}
		set, err := HeldOut(s, 2*s.States(), 1)
		if err != nil {
			t.Errorf("%v: %v", ref, err)
		}
		ids := map[string]bool{}
		var content []string
		for _, p := range set {
			if err := s.CheckProfile(p); err != nil {
				t.Errorf("%v: %v", ref, err)
			}
			ids[p.ID] = true
			content = append(content, p.State.String()+" "+strings.Join(p.Behaviours, " "))
		}
		if len(ids) != len(set) {
			t.Errorf("%v: %d different profiles of %d", ref, len(ids), len(set))
		}
		if other := sets[ref.Name]; other != nil && !reflect.DeepEqual(other, content) {
			t.Errorf("%v: another held-out set than in the other language", ref)
		}
		sets[ref.Name] = content
		t.Logf("%v: at least %d combinations per state", ref, least)
	}
}
