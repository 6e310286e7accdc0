package curriculum

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"

	"seadtrain/dialogue"
)

// combination is a set of behaviours: their indices in the library, ordered by behaviour id.
type combination []int

// Every combination has fewest..most behaviours (the paper's 1–3), and is for training or held out.
const (
	fewest, most      = 1, 3
	training, heldOut = 0, 1
)

// ids are the behaviours' names, sorted.
func (c combination) ids(s *dialogue.Scenario) []string {
	out := make([]string, len(c))
	for i, b := range c {
		out[i] = s.Behaviours[b].ID
	}
	return out
}

// consistent lists the behaviours that can go with a state, ordered by id.
func consistent(s *dialogue.Scenario, st dialogue.State) []int {
	var out []int
	for i, b := range s.Behaviours {
		if s.Consistent(b, st) {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, func(a, b int) int { return strings.Compare(s.Behaviours[a].ID, s.Behaviours[b].ID) })
	return out
}

// subsets visits all subsets of from with that many members, in order, until visit says no; false if it did.
func subsets(from []int, size int, visit func(combination) bool) bool {
	if size == 0 {
		return visit(nil)
	}
	for i := range len(from) - size + 1 {
		more := subsets(from[i+1:], size-1, func(rest combination) bool {
			return visit(append(combination{from[i]}, rest...))
		})
		if !more {
			return false
		}
	}
	return true
}

// choose is the number of subsets of m things with k members; above 2^30 it stops counting.
func choose(m, k int) int {
	n := 1
	for i := 1; i <= k && n < 1<<30; i++ {
		n = n * (m - k + i) / i
	}
	return n
}

// split divides all behaviour combinations of a scenario into those for training (about four fifths) and those held
// out, by a hash of their ids: the same for every seed, config and language.
type split struct {
	scn  *dialogue.Scenario
	salt byte
}

// newSplit takes the first salt that leaves every state something on both sides; only tiny libraries need a second try.
func newSplit(s *dialogue.Scenario) (split, error) {
	var err error
	for salt := range byte(64) {
		sp := split{s, salt}
		if err = sp.check(); err == nil {
			return sp, nil
		}
	}
	return split{}, err
}

func (sp split) check() error {
	for i := range sp.scn.States() {
		from := consistent(sp.scn, sp.scn.StateAt(i))
		var found [2]bool
		for size := fewest; size <= most; size++ {
			more := subsets(from, size, func(c combination) bool {
				found[sp.side(c)] = true
				return found != [2]bool{true, true}
			})
			if !more {
				break
			}
		}
		if found != [2]bool{true, true} {
			return fmt.Errorf("scenario %s, state %v: the %d behaviours that go with it do not make combinations both for training and for the held-out set: the library needs more behaviours",
				sp.scn.Name, sp.scn.StateAt(i), len(from))
		}
	}
	return nil
}

// side is training or heldOut.
func (sp split) side(c combination) int {
	h := fnv.New64a()
	h.Write([]byte{sp.salt})
	for _, id := range c.ids(sp.scn) {
		h.Write([]byte(id))
		h.Write([]byte{0})
	}
	sum := h.Sum64()
	if (sum^sum>>32)%5 == 0 {
		return heldOut
	}
	return training
}

// pool draws at most n different combinations of lo..hi behaviours for a state from one side of the split. Sizes get
// equal places while they last: there are far more threes than ones.
func (sp split) pool(side, state, lo, hi, n int, rng *rand.Rand) []combination {
	from := consistent(sp.scn, sp.scn.StateAt(state))
	var bySize [][]combination
	for size := lo; size <= min(hi, len(from)); size++ {
		bySize = append(bySize, sp.some(side, from, size, n, rng))
	}
	var out []combination
	for i := 0; i < n; i++ { // the i-th of every size
		for _, cs := range bySize {
			if i < len(cs) && len(out) < n {
				out = append(out, cs[i])
			}
		}
	}
	return out
}

// some draws at most n different combinations of one size, in random order.
func (sp split) some(side int, from []int, size, n int, rng *rand.Rand) []combination {
	var out []combination
	if choose(len(from), size) <= 10*n { // few: list them all
		subsets(from, size, func(c combination) bool {
			if sp.side(c) == side {
				out = append(out, c)
			}
			return true
		})
		rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		return out[:min(n, len(out))]
	}
	// Many: a fifth of 10 n at the least is on this side, so that a draw hits a new one with a chance of 1 in 10 or more.
	seen := map[string]bool{}
	for tries := 0; len(out) < n && tries < 1000*n; tries++ {
		places := rng.Perm(len(from))[:size]
		slices.Sort(places)
		c := make(combination, size)
		for i, p := range places {
			c[i] = from[p]
		}
		if k := fmt.Sprint(c); !seen[k] && sp.side(c) == side {
			seen[k] = true
			out = append(out, c)
		}
	}
	return out
}
