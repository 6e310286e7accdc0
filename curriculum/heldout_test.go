package curriculum

import (
	"reflect"
	"strings"
	"testing"
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
