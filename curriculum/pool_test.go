package curriculum

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"seadtrain/dialogue"
)

func TestSubsets(t *testing.T) {
	var got []string
	for size := 1; size <= 3; size++ {
		subsets([]int{4, 5, 6}, size, func(c combination) bool {
			got = append(got, fmt.Sprint(c))
			return true
		})
	}
	if want := "[4] [5] [6] [4 5] [4 6] [5 6] [4 5 6]"; strings.Join(got, " ") != want {
		t.Errorf("subsets %v, want %s", got, want)
	}
	// C(90,3) = 90·89·88/6
	if got := choose(90, 3); got != 117480 {
		t.Errorf("choose(90, 3) = %d", got)
	}
	if choose(2, 3) != 0 {
		t.Error("3 of 2 things")
	}
}

// Pools hold at most 200 different, sorted, consistent training combinations, the same for the same seed.
func TestPools(t *testing.T) {
	for _, library := range []int{12, 40, 95} {
		s := world(library)
		c, err := New(Default(), s, 5)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := New(Default(), s, 5)
		other, _ := New(Default(), s, 6)
		if !reflect.DeepEqual(c.pools, again.pools) {
			t.Errorf("%d behaviours: same seed, other pools", library)
		}
		if reflect.DeepEqual(c.pools, other.pools) {
			t.Errorf("%d behaviours: other seed, same pools", library)
		}
		sp, _ := newSplit(s)
		for state, pool := range c.pools {
			// 12 behaviours: 12 + 66 + 220 = 298 combinations, a fifth held out.
			if len(pool) > 200 || library >= 40 && len(pool) < 200 || len(pool) < 100 {
				t.Fatalf("%d behaviours, state %v: %d combinations", library, s.StateAt(state), len(pool))
			}
			seen := map[string]bool{}
			for _, comb := range pool {
				ids := comb.ids(s)
				if seen[fmt.Sprint(ids)] || !slices.IsSorted(ids) || sp.side(comb) != training {
					t.Fatalf("state %v: combination %v repeated, unsorted or held out", s.StateAt(state), ids)
				}
				seen[fmt.Sprint(ids)] = true
				if err := s.CheckProfile(s.NewProfile(s.StateAt(state), ids)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// Sizes get equal places while they last: of 40 behaviours about 32 single ones are for training (36 and 29 where the
// library's contradictions bite), the rest of 200 is shared by twos and threes.
func TestPoolSizes(t *testing.T) {
	s := world(40)
	sp, _ := newSplit(s)
	var count [4]int
	for _, c := range sp.pool(training, s.States()-1, 1, 3, 200, rand.New(rand.NewPCG(1, 1))) {
		count[len(c)]++
	}
	if count[1] < 25 || count[1] > 38 || count[2]-count[3] > 1 || count[3] > count[2] || count[1]+count[2]+count[3] != 200 {
		t.Errorf("sizes 1, 2, 3: %v", count[1:])
	}
}

// About a fifth of all combinations is held out, and it does not depend on the language or on the library's order.
func TestSplit(t *testing.T) {
	s := world(40)
	sp, err := newSplit(s)
	if err != nil {
		t.Fatal(err)
	}
	all, out := 0, 0
	from := consistent(s, dialogue.State{4, 3, 5})
	for size := 1; size <= 3; size++ {
		subsets(from, size, func(c combination) bool {
			all++
			out += sp.side(c)
			return true
		})
	}
	// 40 + 780 + 9880 = 10700; 5 standard errors: 5·√(.16/10700) = .019
	if share := float64(out) / float64(all); all != 10700 || share < .18 || share > .22 {
		t.Errorf("%d of %d held out", out, all)
	}
	zh := world(40)
	zh.Language = "zh"
	slices.Reverse(zh.Behaviours)
	spZH, _ := newSplit(zh)
	for i := range 40 {
		for j := range i {
			a, b := combination{j, i}, combination{39 - j, 39 - i}
			if sp.side(a) != spZH.side(b) {
				t.Fatalf("%v is held out in one language only", a.ids(s))
			}
		}
	}
}

func TestTinyLibraries(t *testing.T) {
	for n, ok := range map[int]bool{0: false, 1: false, 2: true, 3: true} {
		// One behaviour makes one combination, which cannot be on both sides; two make three.
		_, err := New(Default(), world(n), 1)
		if (err == nil) != ok {
			t.Errorf("%d behaviours: error %v", n, err)
		}
		if err != nil && !strings.Contains(err.Error(), "scenario sim, state 0-0-0") {
			t.Errorf("%d behaviours: error %v does not say where", n, err)
		}
	}
}
