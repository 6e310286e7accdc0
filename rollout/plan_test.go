package rollout

import (
	"slices"
	"testing"
)

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name    string
		pending []int
		rows    int
		want    []int
	}{
		{"all fit", []int{1, 5, 1, 3}, 16, []int{1, 5, 1, 3}},
		{"decode first, then prefill in order", []int{9, 1, 4, 1}, 8, []int{6, 1, 0, 1}}, // 8 - 2 decode = 6
		{"a prefill is cut", []int{5, 5}, 7, []int{5, 2}},
		{"more decodes than rows", []int{1, 1, 1, 4}, 2, []int{1, 1, 0, 0}},
		{"nothing pending", []int{0, 2}, 4, []int{0, 2}},
		{"no sequences", nil, 4, []int{}},
	} {
		if got := plan(nil, c.pending, c.rows); !slices.Equal(got, c.want) {
			t.Errorf("%s: grants %v, want %v", c.name, got, c.want)
		}
	}
}
