package torch

import (
	"fmt"
	"math"
	"testing"
)

// policyCase is a batch of logits with a set, a temperature and a target of its own in every row.
type policyCase struct {
	vocab   int
	logits  *Tensor // [n, vocab]
	targets Targets
	sets    *Sets
}

func newPolicyCase(seed uint64, vocab int) *policyCase {
	r := random(seed)
	c := &policyCase{vocab: vocab, sets: NewSets(vocab)}
	some := func(keep float64) []int32 {
		ids := []int32{int32(r.IntN(vocab))} // never empty
		for id := range vocab {
			if r.Float64() < keep {
				ids = append(ids, int32(id))
			}
		}
		return ids
	}
	sets := []int32{0, c.sets.Add(some(.5)), c.sets.Add(some(.02)), c.sets.Add(some(.99))}
	for _, temperature := range []float32{.3, 1, 1.2, 7} {
		for _, set := range sets {
			target := int32(r.IntN(vocab))
			for !c.sets.Has(set, target) {
				target = int32(r.IntN(vocab))
			}
			t := &c.targets
			t.IDs, t.Set, t.Temperature = append(t.IDs, target), append(t.Set, set), append(t.Temperature, temperature)
		}
	}
	c.logits = Randn(seed, F32, CPU, int64(len(c.targets.IDs)), int64(vocab)).MulScalar(3)
	return c
}

// plain gives log π(target) and the entropy by autograd's own log_softmax in fp64, and the gradient for coefficients.
func (c *policyCase) plain(dLogProb, dEntropy []float64) (logProb, entropy, grad []float64) {
	n, v := int64(len(c.targets.IDs)), int64(c.vocab)
	out := make([]uint8, n*v)
	temperature, target := make([]float64, n), make([]int64, n)
	for i := range n {
		temperature[i], target[i] = float64(c.targets.Temperature[i]), int64(c.targets.IDs[i])
		for j := range v {
			if !c.sets.Has(c.targets.Set[i], int32(j)) {
				out[i*v+j] = 1
			}
		}
	}
	mask := Of(out, n, v).To(Bool, CPU)
	WithGrad(func() {
		l := c.logits.To(F64, CPU).Detach().RequireGrad(true)
		lp := l.Div(Of(temperature, n, 1)).MaskedFill(mask, math.Inf(-1)).LogSoftmax(-1).MaskedFill(mask, 0)
		ent := lp.Exp().MaskedFill(mask, 0).Mul(lp).Sum(-1, false).Neg()
		taken := lp.Gather(1, Of(target, n, 1)).Reshape(n)
		logProb, entropy = Data[float64](taken.Detach()), Data[float64](ent.Detach())
		loss := taken.Mul(Of(dLogProb)).Add(ent.Mul(Of(dEntropy))).SumAll()
		grad = Data[float64](Grad([]*Tensor{loss}, nil, []*Tensor{l})[0])
	})
	return
}

func coefficients(seed uint64, n int) (a, b []float64) {
	r := random(seed)
	for range n {
		a, b = append(a, r.NormFloat64()), append(b, r.NormFloat64())
	}
	return
}

func checkPolicy(t *testing.T, vocab int) {
	do(t, func() {
		c := newPolicyCase(uint64(vocab), vocab)
		n := len(c.targets.IDs)
		dlp, dent := coefficients(4, n)
		logProb, entropy, grad := c.plain(dlp, dent)
		stats := LogitStats(c.logits, 0, c.targets, c.sets)
		gotLP, gotEnt := make([]float64, n), make([]float64, n)
		for i, s := range stats {
			gotLP[i], gotEnt[i] = s.LogProb(), s.Entropy()
		}
		nearSlices(t, "log-prob", gotLP, logProb, 1e-5)
		nearSlices(t, "entropy", gotEnt, entropy, 1e-5)
		LogitGradInPlace(c.logits, 0, c.targets, c.sets, stats, dlp, dent)
		nearSlices(t, "gradient", Data[float64](c.logits), grad, 1e-5)
	})
}

func TestKernelPolicy(t *testing.T) {
	sizes := []int{511, 512, 513, 1000, 1500}
	for v := 1; v <= 130; v++ {
		sizes = append(sizes, v)
	}
	for _, v := range sizes {
		t.Run(fmt.Sprint(v), func(t *testing.T) { checkPolicy(t, v) })
	}
}

// The columns of a vocabulary spread over ranks: merged statistics and the parts' gradients are those of the whole.
func TestKernelPolicySharded(t *testing.T) {
	for _, cuts := range [][]int64{{0, 64, 128, 200}, {0, 1, 77, 200}, {0, 600, 601, 1300}} {
		t.Run(fmt.Sprint(cuts), func(t *testing.T) {
			do(t, func() {
				c := newPolicyCase(9, int(cuts[len(cuts)-1]))
				n := len(c.targets.IDs)
				whole := LogitStats(c.logits, 0, c.targets, c.sets)
				var merged []Stats
				var parts []*Tensor
				for i := range len(cuts) - 1 {
					part := c.logits.Narrow(1, cuts[i], cuts[i+1]-cuts[i]).Contiguous()
					parts = append(parts, part)
					for row, s := range LogitStats(part, cuts[i], c.targets, c.sets) {
						if i == 0 {
							merged = append(merged, s)
						} else {
							merged[row] = merged[row].Merge(s)
						}
					}
				}
				for i, m := range merged {
					w := whole[i]
					nearSlices(t, fmt.Sprint("row ", i), []float64{m.LogProb(), m.Entropy(), m.LSE(), m.Max, m.Target},
						[]float64{w.LogProb(), w.Entropy(), w.LSE(), w.Max, w.Target}, 1e-6)
				}
				dlp, dent := coefficients(4, n)
				for i, part := range parts {
					LogitGradInPlace(part, cuts[i], c.targets, c.sets, merged, dlp, dent)
				}
				LogitGradInPlace(c.logits, 0, c.targets, c.sets, whole, dlp, dent)
				near(t, "gradient", Cat(1, parts...), c.logits, 1e-6)
			})
		})
	}
}

// Adding 1024 to all logits of a row changes nothing. They are multiples of 1/64, so that fp32 holds the sums exactly; a
// log-sum-exp rounded to fp32 would be off by 6e-5 there.
func TestKernelPolicyShift(t *testing.T) {
	do(t, func() {
		l := Randn(5, F32, CPU, 3, 700).MulScalar(128).To(I32, CPU).To(F32, CPU).MulScalar(1. / 64)
		tg := Targets{[]int32{1, 2, 3}, []int32{0, 0, 0}, []float32{1, 1, 1}}
		dlp, dent := coefficients(4, 3)
		shifted := l.AddScalar(1024)
		a, b := LogitStats(l, 0, tg, nil), LogitStats(shifted, 0, tg, nil)
		for i := range a {
			nearSlices(t, "row", []float64{b[i].LogProb(), b[i].Entropy()}, []float64{a[i].LogProb(), a[i].Entropy()}, 1e-6)
		}
		LogitGradInPlace(l, 0, tg, nil, a, dlp, dent)
		LogitGradInPlace(shifted, 0, tg, nil, b, dlp, dent)
		near(t, "gradient", shifted, l, 1e-6)
	})
}

// Every row is computed alone: the batch's size and the threads change no bit.
func TestKernelPolicyInvariance(t *testing.T) {
	defer SetNumThreads(NumThreads())
	do(t, func() {
		c := newPolicyCase(3, 5000)
		SetNumThreads(1)
		one := LogitStats(c.logits, 0, c.targets, c.sets)
		SetNumThreads(2)
		two := LogitStats(c.logits, 0, c.targets, c.sets)
		for i := range one {
			alone := LogitStats(c.logits.Narrow(0, int64(i), 1), 0, Targets{c.targets.IDs[i : i+1], c.targets.Set[i : i+1], c.targets.Temperature[i : i+1]}, c.sets)[0]
			if one[i] != two[i] || one[i] != alone {
				t.Errorf("row %d: %v on one thread, %v on two, %v alone", i, one[i], two[i], alone)
			}
		}
	})
}

// Odd rows: what cannot be computed is NaN or infinite, never a plausible number.
func TestKernelPolicyOddRows(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	sets := NewSets(3)
	empty, first := sets.Add(nil), sets.Add([]int32{0})
	for name, c := range map[string]struct {
		logits []float32
		set    int32
		target int32
		good   bool
	}{
		"plain":                        {[]float32{1, 2, 3}, 0, 1, true},
		"NaN":                          {[]float32{1, nan, 3}, 0, 0, false},
		"infinite":                     {[]float32{1, inf, 3}, 0, 0, false},
		"empty set":                    {[]float32{1, 2, 3}, empty, 0, false},
		"target outside of its set":    {[]float32{1, 2, 3}, first, 1, false},
		"target outside of vocabulary": {[]float32{1, 2, 3}, 0, 3, false},
		"NaN outside of the set":       {[]float32{1, nan, 3}, first, 0, true},
		"very large":                   {[]float32{-1e38, 0, 1e38}, 0, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			do(t, func() {
				s := LogitStats(Of(c.logits, 1, 3), 0, Targets{[]int32{c.target}, []int32{c.set}, []float32{1}}, sets)[0]
				lp := s.LogProb()
				if good := !math.IsNaN(lp) && !math.IsInf(lp, 0) && !math.IsNaN(s.Entropy()); good != c.good {
					t.Errorf("%+v: log-prob %v, entropy %v", s, lp, s.Entropy())
				}
			})
		})
	}
}

func TestPolicyArguments(t *testing.T) {
	sets := NewSets(100)
	some := sets.Add([]int32{5})
	one := func(set int32, temperature float32) Targets {
		return Targets{[]int32{5}, []int32{set}, []float32{temperature}}
	}
	l := func() *Tensor { return Zeros(F32, CPU, 1, 100) }
	zero := []float64{0}
	for name, c := range map[string]struct {
		code Code
		f    func()
	}{
		"temperature 0":          {CodeValue, func() { LogitStats(l(), 0, one(0, 0), sets) }},
		"temperature NaN":        {CodeValue, func() { LogitStats(l(), 0, one(0, float32(math.NaN())), sets) }},
		"no such set":            {CodeIndex, func() { LogitStats(l(), 0, one(some+1, 1), sets) }},
		"negative set":           {CodeIndex, func() { LogitStats(l(), 0, one(-1, 1), sets) }},
		"set without a table":    {CodeIndex, func() { LogitStats(l(), 0, one(1, 1), nil) }},
		"sets are too small":     {CodeShape, func() { LogitStats(Zeros(F32, CPU, 1, 129), 0, one(some, 1), sets) }},
		"shard is too far right": {CodeShape, func() { LogitStats(l(), 29, one(some, 1), sets) }},
		"negative offset":        {CodeValue, func() { LogitStats(l(), -1, one(0, 1), sets) }},
		"fewer temperatures":     {CodeShape, func() { LogitStats(l(), 0, Targets{[]int32{5}, []int32{0}, nil}, sets) }},
		"more rows":              {CodeShape, func() { LogitStats(Zeros(F32, CPU, 2, 100), 0, one(0, 1), sets) }},
		"bf16":                   {CodeShape, func() { LogitStats(Zeros(BF16, CPU, 1, 100), 0, one(0, 1), sets) }},
		"not contiguous":         {CodeShape, func() { LogitStats(Zeros(F32, CPU, 100, 2).Transpose(0, 1).Narrow(0, 0, 1), 0, one(0, 1), sets) }},
		"gradient without sets":  {CodeIndex, func() { LogitGradInPlace(l(), 0, one(some, 1), nil, make([]Stats, 1), zero, zero) }},
		"gradient, fewer stats":  {CodeShape, func() { LogitGradInPlace(l(), 0, one(0, 1), sets, nil, zero, zero) }},
		"gradient, no entropies": {CodeShape, func() { LogitGradInPlace(l(), 0, one(0, 1), sets, make([]Stats, 1), zero, nil) }},
		"gradient, fewer sets": {CodeShape, func() {
			LogitGradInPlace(l(), 0, Targets{[]int32{5}, nil, []float32{1}}, sets, make([]Stats, 1), zero, zero)
		}},
		"draws, fewer":           {CodeShape, func() { Sample(Zeros(F32, CPU, 2, 100), make([]Draw, 1), nil) }},
		"draw from no such set":  {CodeIndex, func() { Sample(l(), []Draw{{Set: 7}}, sets) }},
		"draw, sets too small":   {CodeShape, func() { Sample(Zeros(F32, CPU, 1, 129), []Draw{{Set: some}}, sets) }},
		"id outside of the sets": {CodeIndex, func() { sets.Add([]int32{100}) }},
		"negative id":            {CodeIndex, func() { sets.Add([]int32{-1}) }},
	} {
		t.Run(name, func(t *testing.T) { t.Log(fails(t, c.code, c.f)) })
	}
}
