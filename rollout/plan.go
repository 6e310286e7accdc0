package rollout

// plan decides how many of its pending tokens each sequence runs in a step of at most rows rows: sequences with a single
// one (decode) come first, then the others (prefill) in order. The result goes into grants.
func plan(grants, pending []int, rows int) []int {
	grants = grants[:0]
	for _, n := range pending {
		grant := 0
		if n == 1 && rows > 0 {
			grant, rows = 1, rows-1
		}
		grants = append(grants, grant)
	}
	for i, n := range pending {
		if n > 1 {
			grants[i] = min(n, rows)
			rows -= grants[i]
		}
	}
	return grants
}
