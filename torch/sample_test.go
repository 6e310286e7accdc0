package torch

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// reference gives the distribution that a draw must follow, in fp64 and by sorting everything: temperature, then top-k,
// top-p and min-p in the order of Hugging Face's processors, each renormalising what the one before it left.
// It also gives the policy (no truncation) and the mass that the truncation keeps.
func reference(logits []float32, d Draw, sets *Sets) (drawn, policy []float64, kept float64) {
	type item struct {
		id int
		p  float64
	}
	var items []item
	best := math.Inf(-1)
	for id, l := range logits {
		if sets.Has(d.Set, int32(id)) {
			best = math.Max(best, float64(l))
		}
	}
	var total float64
	policy, drawn = make([]float64, len(logits)), make([]float64, len(logits))
	for id, l := range logits {
		if sets.Has(d.Set, int32(id)) {
			// the kernel divides in fp32: so does this, that ties are the same
			p := math.Exp(float64(l/d.Temperature) - float64(float32(best)/d.Temperature))
			items = append(items, item{id, p})
			policy[id] = p
			total += p
		}
	}
	for id := range policy {
		policy[id] /= total
	}
	slices.SortStableFunc(items, func(a, b item) int {
		switch {
		case logits[a.id] > logits[b.id]:
			return -1
		case logits[a.id] < logits[b.id]:
			return 1
		}
		return 0
	})
	sum := func() (s float64) {
		for _, x := range items {
			s += x.p
		}
		return s
	}
	if d.TopK > 0 {
		items = items[:min(int(d.TopK), len(items))]
	}
	if d.TopP < 1 {
		all, before, n := sum(), 0.0, 0
		for n < len(items) && (n == 0 || before < float64(d.TopP)*all) { // kept while what lies before is less than p
			before += items[n].p
			n++
		}
		items = items[:n]
	}
	n := 0
	for n < len(items) && (n == 0 || items[n].p >= float64(d.MinP)*items[0].p) {
		n++
	}
	items = items[:n]
	left := sum()
	for _, x := range items {
		drawn[x.id] = x.p / left
	}
	return drawn, policy, left / total
}

var drawKinds = map[string]Draw{
	"plain":              {Temperature: 1, TopP: 1},
	"hot":                {Temperature: 1.7, TopP: 1},
	"cold":               {Temperature: .4, TopP: 1},
	"top-k":              {Temperature: 1.2, TopP: 1, TopK: 5},
	"top-k 1":            {Temperature: 1.2, TopP: 1, TopK: 1},
	"top-k of all":       {Temperature: 1, TopP: 1, TopK: 1 << 20},
	"top-p":              {Temperature: 1.2, TopP: .8},
	"top-p tiny":         {Temperature: 1, TopP: 1e-6},
	"top-p 0":            {Temperature: 1, TopP: 0},
	"top-p nearly all":   {Temperature: 1, TopP: .999},
	"min-p":              {Temperature: 1.2, TopP: 1, MinP: .2},
	"min-p 1":            {Temperature: 1.2, TopP: 1, MinP: 1},
	"top-k, top-p":       {Temperature: 1.2, TopP: .9, TopK: 6},
	"top-k, top-p, wide": {Temperature: 3, TopP: .7, TopK: 9},
	"top-p, min-p":       {Temperature: 1.5, TopP: .9, MinP: .3},
	"all three":          {Temperature: 1.5, TopP: .9, MinP: .15, TopK: 8},
}

// Draws at evenly spaced u: every id has one or more intervals of [0, 1), so its count is its probability times n, give
// or take two for the ends of an interval. Sharper than any statistical test.
func TestKernelSampleQuantiles(t *testing.T) {
	const n, vocab = 4000, 20
	for name, d := range drawKinds {
		for _, restricted := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " restricted ", restricted), func(t *testing.T) {
				do(t, func() {
					sets := NewSets(vocab)
					if d := &d; restricted {
						d.Set = sets.Add([]int32{0, 2, 3, 5, 8, 11, 12, 13, 17, 19})
					}
					logits := Randn(7, F32, CPU, 1, vocab).MulScalar(1.5)
					row := Data[float32](logits)
					drawn, policy, kept := reference(row, d, sets)
					draws := make([]Draw, n)
					for i := range draws {
						draws[i] = d
						draws[i].U = (float64(i) + .5) / n
					}
					count := make([]float64, vocab)
					for _, got := range Sample(Cat(0, slices.Repeat([]*Tensor{logits}, n)...), draws, sets) {
						count[got.ID]++
						if !(math.Abs(float64(got.LogProb)-math.Log(policy[got.ID])) <= 1e-5) || !(math.Abs(float64(got.Kept)-kept) <= 1e-5) {
							t.Fatalf("%+v, want log-prob %v, kept %v", got, math.Log(policy[got.ID]), kept)
						}
					}
					for id, c := range count {
						if !(math.Abs(c-n*drawn[id]) <= 2) {
							t.Errorf("id %d: drawn %v times of %d, want %.1f", id, c, n, n*drawn[id])
						}
					}
				})
			})
		}
	}
}

// The same with real random numbers: chi-square against the analytic distribution, over cells of at least five expected
// draws. With k cells the statistic has mean k-1 and variance 2(k-1); the limit is five standard deviations above.
func TestKernelSampleChiSquare(t *testing.T) {
	const n, vocab = 20000, 20
	for name, d := range drawKinds {
		t.Run(name, func(t *testing.T) {
			do(t, func() {
				r := random(11)
				logits := Randn(7, F32, CPU, 1, vocab).MulScalar(1.5)
				drawn, _, _ := reference(Data[float32](logits), d, NewSets(vocab))
				draws := make([]Draw, n)
				for i := range draws {
					draws[i] = d
					draws[i].U = r.Float64()
				}
				count := make([]float64, vocab)
				for _, got := range Sample(Cat(0, slices.Repeat([]*Tensor{logits}, n)...), draws, nil) {
					count[got.ID]++
				}
				var chi2, cells, rare, wantRare float64
				cell := func(got, want float64) {
					cells++
					chi2 += (got - want) * (got - want) / want
				}
				for id, p := range drawn {
					switch {
					case p == 0 && count[id] > 0:
						t.Errorf("id %d is drawn %v times, and has no probability", id, count[id])
					case n*p >= 5:
						cell(count[id], n*p)
					default:
						rare += count[id]
						wantRare += n * p
					}
				}
				if wantRare > 0 {
					cell(rare, wantRare)
				}
				if limit := cells - 1 + 5*math.Sqrt(2*cells); !(chi2 <= limit) {
					t.Errorf("chi-square %.1f in %v cells, limit %.1f", chi2, cells, limit)
				}
			})
		})
	}
}

// Vocabularies of real models, flat and peaked, with ties: the truncation keeps what sorting keeps.
func TestKernelSampleLarge(t *testing.T) {
	for _, vocab := range []int64{49152, 151936} {
		for _, scale := range []float64{0, .1, 3} { // 0: all logits are equal
			do(t, func() {
				sets := NewSets(int(vocab))
				var odd []int32
				for id := int32(1); id < int32(vocab); id += 2 {
					odd = append(odd, id)
				}
				sets.Add(odd)
				// Rounded to eighths, so that many logits are equal.
				logits := Randn(3, F32, CPU, 1, vocab).MulScalar(scale*8).To(I32, CPU).To(F32, CPU).MulScalar(1. / 8)
				row := Data[float32](logits)
				for i, name := range []string{"top-k", "top-p", "min-p", "all three"} {
					for set := range int32(2) {
						d := drawKinds[name]
						d.Set, d.U = set, .2+.2*float64(i)
						drawn, policy, kept := reference(row, d, sets)
						got := Sample(logits, []Draw{d}, sets)[0]
						if drawn[got.ID] == 0 {
							t.Errorf("%d × %v, %s, set %d: %d is outside of what is kept", vocab, scale, name, set, got.ID)
						}
						// Where all are alike, fp32 may cut a nucleus one id early or late.
						if !(math.Abs(float64(got.Kept)-kept) <= 1e-5+2/float64(vocab)) || !(math.Abs(float64(got.LogProb)-math.Log(policy[got.ID])) <= 1e-5) {
							t.Errorf("%d × %v, %s, set %d: %+v, want kept %v, log-prob %v", vocab, scale, name, set, got, kept, math.Log(policy[got.ID]))
						}
					}
				}
			})
		}
	}
}

func TestKernelSampleGreedy(t *testing.T) {
	do(t, func() {
		sets := NewSets(600)
		some := sets.Add([]int32{3, 4, 599})
		l := make([]float32, 3*600)
		l[77], l[500] = 2, 2           // a tie: the lower id
		l[600+599] = 9                 // the last
		l[1200+1], l[1200+599] = 5, -1 // outside of the set
		l[1200+3], l[1200+4] = -2, -3  //
		want := []int32{77, 599, 599}  //
		draws := []Draw{{}, {Temperature: -1, TopK: 3, TopP: .2}, {Set: some}}
		logits := Of(l, 3, 600)
		tg := Targets{want, []int32{0, 0, some}, []float32{1, 1, 1}}
		stats := LogitStats(logits, 0, tg, sets)
		for i, got := range Sample(logits, draws, sets) {
			if got.ID != want[i] || got.Kept != 1 || !(math.Abs(float64(got.LogProb)-stats[i].LogProb()) <= 1e-6) {
				t.Errorf("row %d: %+v, want id %d, log-prob %v", i, got, want[i], stats[i].LogProb())
			}
		}
	})
}

// The engine's log-prob and the trainer's are of one function.
func TestKernelSampleLogProbEqualsStats(t *testing.T) {
	do(t, func() {
		for _, vocab := range []int{5, 130, 2000} {
			c := newPolicyCase(uint64(vocab), vocab)
			r := random(2)
			draws := make([]Draw, len(c.targets.IDs))
			for i := range draws {
				draws[i] = Draw{Temperature: c.targets.Temperature[i], Set: c.targets.Set[i], TopP: float32(1 - .3*float64(i%2)), TopK: int32(i % 3 * 4), U: r.Float64()}
			}
			got := Sample(c.logits, draws, c.sets)
			for i := range got {
				c.targets.IDs[i] = got[i].ID
			}
			for i, s := range LogitStats(c.logits, 0, c.targets, c.sets) {
				if !(math.Abs(s.LogProb()-float64(got[i].LogProb)) <= 1e-6*math.Max(1, -s.LogProb())) {
					t.Errorf("vocabulary %d, row %d: sampled at %v, recomputed %v", vocab, i, got[i].LogProb, s.LogProb())
				}
			}
		}
	})
}

// u just below 1, where rounding may run past the end, still draws an allowed id of positive probability.
func TestKernelSampleEnds(t *testing.T) {
	do(t, func() {
		for _, vocab := range []int64{1, 3, 17, 1000, 5000} {
			logits := Randn(1, F32, CPU, 1, vocab)
			row := Data[float32](logits)
			row[vocab-1] -= 500 // no probability
			sets := NewSets(int(vocab))
			for name, d := range drawKinds {
				for _, u := range []float64{0, math.Nextafter(1, 0), 1} { // 1 is not allowed, and still does no harm
					d.U = u
					drawn, _, _ := reference(row, d, sets)
					if got := Sample(Of(row, 1, vocab), []Draw{d}, nil)[0]; vocab > 1 && drawn[got.ID] < 1e-30 {
						t.Errorf("vocabulary %d, %s, u %v: id %d of probability %v", vocab, name, u, got.ID, drawn[got.ID])
					}
				}
			}
		}
	})
}

func TestKernelSampleBadRows(t *testing.T) {
	sets := NewSets(3)
	empty, second := sets.Add(nil), sets.Add([]int32{1})
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	logits := func() *Tensor {
		return Of([]float32{1, 2, 3, 1, nan, 3, 1, inf, 3, 1, -inf, 3, 1, 2, 3, nan, 2, inf}, 6, 3)
	}
	for _, temperature := range []float32{0, 1} {
		draws := slices.Repeat([]Draw{{Temperature: temperature, TopP: .9, U: .5}}, 6)
		draws[4].Set = empty
		draws[5].Set = second // the bad ones are outside of the set: no harm
		do(t, func() {
			got, errs := SampleRows(logits(), draws, sets)
			for i, bad := range []bool{false, true, true, true, true, false} {
				if (errs[i] != nil) != bad || (got[i].ID < 0) != bad {
					t.Errorf("temperature %v, row %d: %+v, %v", temperature, i, got[i], errs[i])
				}
			}
			if want := "torch.sample([6 3]): row 4: allowed set 1 is empty"; errs[4].Error() != want {
				t.Errorf("%q, want %q", errs[4], want)
			}
			if _, errs := SampleRows(logits().Narrow(0, 0, 1), draws[:1], sets); errs != nil {
				t.Errorf("errors %v for a good row", errs)
			}
		})
		if e := fails(t, CodeValue, func() { Sample(logits(), draws, sets) }); e.Error() != "torch.sample([6 3]): row 1 holds NaN or Inf" {
			t.Error(e)
		}
	}
}
