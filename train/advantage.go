package train

import (
	"fmt"
	"math"
)

// Scale says what a group's centred rewards are divided by.
type Scale string

const (
	ScaleNone  Scale = "none"  // the paper: reward minus group mean
	ScaleGroup Scale = "group" // the group's standard deviation (GRPO, arXiv 2402.03300 eq. 3)
	ScaleBatch Scale = "batch" // the standard deviation over all rewards of the batch
)

// stdEps keeps a division by a group's spread finite; TRL's value.
const stdEps = 1e-4

// Advantages centres rewards within their groups.
//
//	A_i = r_i − mean(r over i's group)                      Baseline "mean"
//	A_i = r_i − mean(r over i's group without i)            leave-one-out (RLOO, arXiv 2402.14740)
//
// and divides by the spread that scale names (sample standard deviation, n−1 in the denominator, plus 1e-4). A group of
// one has advantage 0. zero counts the groups in which every advantage is 0.
func Advantages(rewards []float64, groups []int, scale Scale, leaveOneOut bool) (adv []float64, zero int, err error) {
	if len(rewards) != len(groups) {
		return nil, 0, fmt.Errorf("%d rewards for %d group numbers", len(rewards), len(groups))
	}
	members := map[int][]int{}
	var order []int
	for i, g := range groups {
		if members[g] == nil {
			order = append(order, g)
		}
		members[g] = append(members[g], i)
	}
	adv = make([]float64, len(rewards))
	batch := spread(rewards, all(len(rewards)))
	for _, g := range order {
		m := members[g]
		sum := 0.0
		for _, i := range m {
			sum += rewards[i]
		}
		n := float64(len(m))
		div := 1.0
		switch scale {
		case ScaleNone, "":
		case ScaleGroup:
			div = spread(rewards, m) + stdEps
		case ScaleBatch:
			div = batch + stdEps
		default:
			return nil, 0, fmt.Errorf("advantage scale is %q: want none, group or batch", scale)
		}
		any := false
		for _, i := range m {
			if len(m) == 1 {
				continue
			}
			a := rewards[i] - sum/n
			if leaveOneOut {
				a = rewards[i] - (sum-rewards[i])/(n-1)
			}
			if math.Abs(a) < 1e-12 { // equal rewards must give exactly 0, whatever the mean rounds to
				a = 0
			}
			adv[i] = a / div
			any = any || a != 0
		}
		if !any {
			zero++
		}
	}
	return adv, zero, nil
}

func all(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// spread is the sample standard deviation; 0 for fewer than two values.
func spread(v []float64, idx []int) float64 {
	if len(idx) < 2 {
		return 0
	}
	mean := 0.0
	for _, i := range idx {
		mean += v[i]
	}
	mean /= float64(len(idx))
	s := 0.0
	for _, i := range idx {
		s += (v[i] - mean) * (v[i] - mean)
	}
	return math.Sqrt(s / float64(len(idx)-1))
}
