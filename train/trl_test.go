package train

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"seadtrain/torch"
)

// The goldens of this file come from TRL 1.16's own functions: see testdata/gen_golden.py.

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// differs compares with a golden in double.
func differs(got, want float64) bool {
	return !(math.Abs(got-want) <= 1e-9*math.Max(1, math.Abs(want)))
}

type lossGolden struct {
	Length                float64
	Old, LP, Ref, Entropy [][]float64
	Mask                  [][]int
	Advantages            []float64
	Cases                 []struct {
		LossType                 string `json:"loss_type"`
		Low, High, Beta, Entropy float64
		Loss, KL, Clipped        float64
		MeanEntropy              float64 `json:"mean_entropy"`
		DLP, DEnt                [][]float64
	}
}

// samples makes one sample per row: token j+1 is predicted with log-prob lp[j].
func (g *lossGolden) samples() []*Sample {
	var out []*Sample
	for b := range g.Mask {
		s := &Sample{ID: "golden", Tokens: []int32{0}, Loss: []bool{false}, LogProbs: []float32{0}, Temperature: 1, Advantage: g.Advantages[b]}
		for j, on := range g.Mask[b] {
			s.Tokens, s.Loss = append(s.Tokens, 0), append(s.Loss, on == 1)
			s.LogProbs = append(s.LogProbs, float32(g.Old[b][j]))
		}
		out = append(out, s)
	}
	return out
}

// rows makes statistics with a given log-prob and entropy: log Σe^z is 0.
func (g *lossGolden) rows(b *Batch) []torch.Stats {
	var out []torch.Stats
	for j := range b.Rows {
		s, k := b.Sample[j], b.Token[j]-1
		out = append(out, torch.Stats{Sum: 1, Target: g.LP[s][k], Weighted: -g.Entropy[s][k]})
	}
	return out
}

func TestLossEqualsTRL(t *testing.T) {
	var g lossGolden
	readJSON(t, "testdata/loss.json", &g)
	norms := map[string]string{"grpo": "sequence", "bnpo": "token", "dapo": "token", "dr_grpo": "fixed"}
	for _, c := range g.Cases {
		samples := g.samples()
		batch := Pack(samples, 1<<20)[0]
		cfg := LossConfig{ClipLow: c.Low, ClipHigh: c.High, KL: c.Beta, Entropy: c.Entropy, Norm: norms[c.LossType], Length: g.Length}
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		run := &stepRun{t: &Trainer{Config: Config{Loss: cfg}, DP: torch.Solo()}, met: &Metrics{Steps: 1}, ref: map[*Sample][]float64{}}
		total := counts{sequences: float64(len(samples))}
		for b, s := range samples {
			total.tokens += float64(s.Trained())
			for j, on := range g.Mask[b] {
				if on == 1 {
					run.ref[s] = append(run.ref[s], g.Ref[b][j])
				}
			}
		}
		// In two calls, as the chunked head makes them.
		rows, coefficients := g.rows(batch), run.coefficients(batch, total)
		var dlp, dent []float64
		for _, cut := range [][2]int{{0, 20}, {20, len(rows)}} {
			a, b, err := coefficients(cut[0], rows[cut[0]:cut[1]])
			if err != nil {
				t.Fatal(err)
			}
			dlp, dent = append(dlp, a...), append(dent, b...)
		}
		for j := range rows {
			b, k := batch.Sample[j], batch.Token[j]-1
			if differs(dlp[j], c.DLP[b][k]) || differs(dent[j], c.DEnt[b][k]) {
				t.Fatalf("%s %+v: token %d of row %d has dlp %v and dentropy %v: TRL has %v and %v", c.LossType, cfg, k, b, dlp[j], dent[j], c.DLP[b][k], c.DEnt[b][k])
			}
		}
		if err := run.finish(); err != nil {
			t.Fatal(err)
		}
		m := run.met
		if differs(m.Loss, c.Loss) || differs(m.KL, c.KL) || differs(m.Entropy, c.MeanEntropy) || !(math.Abs(m.ClipFraction-c.Clipped) <= 1e-6) {
			t.Errorf("%s %+v: loss %v, KL %v, entropy %v, clipped %v: TRL has %v, %v, %v, %v", c.LossType, cfg, m.Loss, m.KL, m.Entropy, m.ClipFraction,
				c.Loss, c.KL, c.MeanEntropy, c.Clipped)
		}
	}
	if len(g.Cases) < 40 {
		t.Fatalf("only %d goldens", len(g.Cases))
	}
}

// The entropy bonus of the other norms, which TRL does not have: −w·c·H per token, so d/dH = −w·c.
func TestEntropyBonusUnderEveryNorm(t *testing.T) {
	total := counts{tokens: 10, sequences: 4}
	for _, c := range []struct {
		norm string
		want float64 // of a token of a sequence of 2
	}{{"token", -0.5 / 10}, {"sequence", -0.5 / (4 * 2)}, {"fixed", -0.5 / (4 * 25)}} {
		cfg := LossConfig{ClipLow: 0.2, ClipHigh: 0.2, Entropy: 0.5, Norm: c.norm, Length: 25}
		tl := cfg.token(-1, -1, 0, 3, 0)
		if w := cfg.weight(2, total); differs(w*tl.dEntropy, c.want) || differs(w*tl.loss, 3*c.want) || tl.dLogProb != 0 {
			t.Errorf("%s: %v and %v, want %v and %v", c.norm, w*tl.dEntropy, w*tl.loss, c.want, 3*c.want)
		}
	}
}

func TestAdvantagesEqualTRL(t *testing.T) {
	var g struct {
		Cases []struct {
			Rewards, Advantages []float64
			Group               int
			Scale               Scale
		}
	}
	readJSON(t, "testdata/advantages.json", &g)
	for _, c := range g.Cases {
		groups := make([]int, len(c.Rewards))
		for i := range groups {
			groups[i] = 100 - i/c.Group // neither from 0 nor rising
		}
		adv, _, err := Advantages(c.Rewards, groups, c.Scale, false)
		if err != nil {
			t.Fatal(err)
		}
		for i := range adv {
			if !(math.Abs(adv[i]-c.Advantages[i]) <= 1e-7) { // TRL takes n/(n−1) in fp32
				t.Fatalf("%v by %d, %s: advantage %d is %v, TRL has %v", c.Rewards, c.Group, c.Scale, i, adv[i], c.Advantages[i])
			}
		}
	}
	if len(g.Cases) != 15 {
		t.Fatalf("%d goldens", len(g.Cases))
	}
}

func TestAdvantagesByHand(t *testing.T) {
	for _, c := range []struct {
		name    string
		rewards []float64
		groups  []int
		scale   Scale
		loo     bool
		want    []float64
		zero    int
	}{
		{"mean of the own group", []float64{1, 0, 0, 5, 3}, []int{7, 7, 7, 2, 2}, ScaleNone, false, []float64{2. / 3, -1. / 3, -1. / 3, 1, -1}, 0},
		{"members need not be neighbours", []float64{1, 5, 0, 3}, []int{1, 2, 1, 2}, "", false, []float64{.5, 1, -.5, -1}, 0},
		// Without i: 1 − (0+0)/2, 0 − (1+0)/2
		{"leave one out", []float64{1, 0, 0}, []int{0, 0, 0}, ScaleNone, true, []float64{1, -.5, -.5}, 0},
		{"a group of one", []float64{1, 1, 0}, []int{0, 1, 1}, ScaleNone, false, []float64{0, .5, -.5}, 1},
		{"a group of one, scaled", []float64{1, 1, 0}, []int{0, 1, 1}, ScaleGroup, true, []float64{0, 1 / (math.Sqrt(.5) + 1e-4), -1 / (math.Sqrt(.5) + 1e-4)}, 1},
		// The mean of three times 0.1 rounds to something else than 0.1.
		{"equal rewards", []float64{.1, .1, .1}, []int{3, 3, 3}, ScaleGroup, false, []float64{0, 0, 0}, 1},
		{"nothing", nil, nil, ScaleBatch, false, nil, 0},
	} {
		adv, zero, err := Advantages(c.rewards, c.groups, c.scale, c.loo)
		if err != nil || zero != c.zero || len(adv) != len(c.want) {
			t.Fatalf("%s: %v, %d groups of zeros, %v", c.name, adv, zero, err)
		}
		for i := range adv {
			if differs(adv[i], c.want[i]) || (c.want[i] == 0) != (adv[i] == 0) {
				t.Errorf("%s: %v, want %v", c.name, adv, c.want)
			}
		}
	}
	if _, _, err := Advantages([]float64{1}, nil, ScaleNone, false); err == nil {
		t.Error("a reward without a group passed")
	}
	if _, _, err := Advantages([]float64{1}, []int{1}, "std", false); err == nil {
		t.Error("an unknown scale passed")
	}
}
