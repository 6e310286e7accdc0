package rollout

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"seadtrain/model"
	"seadtrain/torch"
)

// A chi-square test of the first sampled token against the distribution that the logits give, with and without top-k.
func TestSamplingMatchesDistribution(t *testing.T) {
	m := tiny(t, "qwen2_untied")
	sharpen(t, m, .5)
	sets := torch.NewSets(96)
	ids := []int32{}
	for i := range int32(40) {
		ids = append(ids, i)
	}
	set := sets.Add(ids)
	ask := prompt(5, 3)
	for _, c := range []struct {
		s   Sampling
		set int32
	}{
		{Sampling{Temperature: 1, TopP: 1}, 0},
		{Sampling{Temperature: 1.2, TopP: .95}, 0},
		{Sampling{Temperature: .9, TopP: .95, TopK: 40}, set},
		{Sampling{Temperature: 2, TopP: 1, MinP: .1}, set},
	} {
		want := analytic(t, m, ask, c.s, sets, c.set)
		e, ws := newTestEngine(t, sets, 4096, false, 900, m)
		const n = 20000
		var counts [96]int
		kept, mass := 0.0, 0.0
		for from := 0; from < n; from += 400 {
			var seqs []*Sequence
			for i := range 400 {
				s, err := ws[0].Open(ask, SequenceOptions{Limit: 60, Sampling: c.s, Rand: rand.New(rand.NewPCG(11, uint64(from+i)))})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Generate(&script{steps: []Next{{Set: c.set}, {Done: true}}}); err != nil {
					t.Fatal(err)
				}
				seqs = append(seqs, s)
			}
			run(t, e)
			for _, s := range seqs {
				counts[s.Generated()[0]]++
				kept += s.Kept
				s.Close()
			}
		}
		chi, df := 0.0, -1.0
		rare, rareWant := 0.0, 0.0
		for id, p := range want.p {
			mass += want.full[id] * b2f(p > 0)
			if x := p * n; x >= 5 {
				chi += (float64(counts[id]) - x) * (float64(counts[id]) - x) / x
				df++
			} else {
				rare, rareWant = rare+float64(counts[id]), rareWant+x
			}
			if p == 0 && counts[id] > 0 {
				t.Errorf("%+v: token %d has no mass but was drawn %d times", c, id, counts[id])
			}
		}
		if rareWant > 0 {
			chi += (rare - rareWant) * (rare - rareWant) / rareWant
			df++
		}
		// Wilson-Hilferty: (chi/df)^(1/3) is about normal with mean 1-2/(9df), variance 2/(9df). Four sigma: 1 in 30,000.
		z := (math.Cbrt(chi/df) - (1 - 2/(9*df))) / math.Sqrt(2/(9*df))
		t.Logf("%+v: chi-square %.1f on %.0f degrees of freedom, z %.2f, kept mass %.4f", c.s, chi, df, z, kept/n)
		if z > 4 || df < 3 {
			t.Errorf("%+v: chi-square %.1f on %.0f degrees of freedom (z %.1f)", c.s, chi, df, z)
		}
		if !(math.Abs(kept/n-mass) <= 1e-4) {
			t.Errorf("%+v: kept mass %.5f, want %.5f", c.s, kept/n, mass)
		}
	}
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

type distribution struct{ full, p []float64 } // π, and π truncated and renormalised

// analytic computes the distribution of the token after a prompt in plain Go.
func analytic(t *testing.T, m *model.Model, ask []int32, s Sampling, sets *torch.Sets, set int32) distribution {
	t.Helper()
	var logits []float32
	if err := torch.Do(func() {
		pos := make([]int32, len(ask))
		for i := range pos {
			pos[i] = int32(i)
		}
		h := m.Hidden(ask, pos, model.Packed{Cu: []int64{0, int64(len(ask))}})
		logits = torch.Data[float32](m.Logits(h.Narrow(0, int64(len(ask)-1), 1)))
	}); err != nil {
		t.Fatal(err)
	}
	d := distribution{full: make([]float64, len(logits)), p: make([]float64, len(logits))}
	order, sum := []int{}, 0.0
	for i, l := range logits {
		if sets.Has(set, int32(i)) {
			d.full[i] = math.Exp(float64(l) / s.Temperature)
			sum += d.full[i]
			order = append(order, i)
		}
	}
	for i := range d.full {
		d.full[i] /= sum
	}
	slices.SortFunc(order, func(a, b int) int {
		if d.full[a] > d.full[b] {
			return -1
		}
		return 1
	})
	if s.TopK > 0 && s.TopK < len(order) {
		order = order[:s.TopK]
	}
	total := 0.0
	for _, i := range order {
		total += d.full[i]
	}
	cum, keep := 0.0, 0
	for keep < len(order) {
		cum += d.full[order[keep]]
		keep++
		if s.TopP < 1 && cum >= s.TopP*total {
			break
		}
	}
	order = order[:keep]
	kept := 0.0
	for _, i := range order {
		if d.full[i] >= s.MinP*d.full[order[0]] {
			d.p[i] = d.full[i]
			kept += d.full[i]
		}
	}
	for i := range d.p {
		d.p[i] /= kept
	}
	return d
}
