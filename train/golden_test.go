package train

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seadtrain/model"
	"seadtrain/model/safetensors"
	"seadtrain/torch"
)

var tiny = []string{"qwen2_tied", "qwen2_untied", "qwen3_tied", "qwen3_untied", "llama_tied", "llama_untied"}

const tinyDir = "../model/testdata/tiny"

func load(t *testing.T, name string) *model.Model {
	t.Helper()
	m, err := model.Load(filepath.Join(tinyDir, name), model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = torch.Do(m.Close) })
	return m
}

func goldens(t *testing.T, name string) *safetensors.Set {
	t.Helper()
	set, err := safetensors.Open(filepath.Join(tinyDir, name, "golden.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	return set
}

func ints64(x *safetensors.Tensor) []int64 {
	out := make([]int64, x.Len())
	for i := range out {
		out[i] = int64(binary.LittleEndian.Uint64(x.Data[8*i:]))
	}
	return out
}

// samplesOf reads a padded batch; label -100 carries no loss. The tiny models' labels equal the inputs elsewhere.
func samplesOf(set *safetensors.Set, batch string) []*Sample {
	ids, mask, labels := set.Get(batch+".input_ids"), set.Get(batch+".attention_mask"), set.Get(batch+".labels")
	i, m, l := ints64(ids), ints64(mask), ints64(labels)
	width := ids.Shape[1]
	var out []*Sample
	for b := range ids.Shape[0] {
		s := &Sample{ID: batch, Temperature: 1}
		for j := b * width; j < (b+1)*width; j++ {
			if m[j] == 1 {
				s.Tokens = append(s.Tokens, int32(i[j]))
				s.Loss = append(s.Loss, l[j] != -100)
			}
		}
		out = append(out, s)
	}
	return out
}

type info struct {
	Loss  map[string]float64
	AdamW struct {
		LR          float64
		Betas       []float64
		Eps         float64
		WeightDecay float64 `json:"weight_decay"`
		Losses      []float64
	}
}

func readInfo(t *testing.T, name string) info {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(tinyDir, name, "golden.json"))
	var i info
	if err == nil {
		err = json.Unmarshal(b, &i)
	}
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// gradients runs cross-entropy over samples and returns the gradients by checkpoint name.
func gradients(t *testing.T, m *model.Model, samples []*Sample, r Recompute, micro, headRows int) (loss float64, grads map[string][]float32) {
	t.Helper()
	b, err := NewBackward(m, nil, r, headRows)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, s := range samples {
		total += s.Trained()
	}
	met := &SFTMetrics{}
	grads = map[string][]float32{}
	err = torch.Try(func() error {
		defer b.Close()
		for _, batch := range Pack(samples, micro) {
			if err := b.Accumulate(batch, crossEntropy(batch, float64(total), met)); err != nil {
				return err
			}
		}
		for i, l := range m.Leaves() {
			g := *l
			g.Tensor = b.Grads[i]
			for k, p := range l.Parts {
				grads[p.Name] = torch.Data[float32](g.View(k, 1))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return met.Loss, grads
}

// apart is the norm of the difference as a share of the norm of want.
func apart(got, want []float32) float64 {
	if len(got) != len(want) || len(want) == 0 {
		return math.Inf(1)
	}
	var d, n float64
	for i := range want {
		d += math.Pow(float64(got[i])-float64(want[i]), 2)
		n += math.Pow(float64(want[i]), 2)
	}
	return math.Sqrt(d / n)
}

func TestGradientsEqualHuggingFace(t *testing.T) {
	for _, name := range tiny {
		set, inf := goldens(t, name), readInfo(t, name)
		for _, batch := range []string{"plain", "right", "left"} {
			for _, way := range []struct {
				r           Recompute
				micro, head int
			}{{KeepAll, 1 << 20, 1024}, {Layer, 20, 3}} {
				m := load(t, name)
				loss, grads := gradients(t, m, samplesOf(set, batch), way.r, way.micro, way.head)
				if !(math.Abs(loss-inf.Loss[batch]) <= 1e-5) {
					t.Errorf("%s/%s/%s: loss %v, Hugging Face has %v", name, batch, way.r, loss, inf.Loss[batch])
				}
				theirs := map[string]bool{} // Hugging Face's parameters, each of which must have a gradient here
				for _, n := range set.Names() {
					if p, ok := strings.CutPrefix(n, batch+".grad."); ok {
						theirs[p] = true
						want, err := set.Get(n).Float32s()
						if err != nil {
							t.Fatal(err)
						}
						if d := apart(grads[p], want); !(d <= 1e-5) {
							t.Errorf("%s/%s/%s: gradient of %s is off by %.2g of its norm", name, batch, way.r, p, d)
						}
					}
				}
				if len(theirs) < 20 {
					t.Fatalf("%d golden gradients", len(theirs))
				}
				for p := range grads {
					if !theirs[p] {
						t.Errorf("%s/%s/%s: a gradient of %s, which Hugging Face does not have", name, batch, way.r, p)
					}
				}
			}
		}
	}
}

func TestTenAdamWStepsEqualHuggingFace(t *testing.T) {
	for _, name := range tiny {
		set, inf := goldens(t, name), readInfo(t, name)
		if len(inf.AdamW.Losses) != 10 {
			t.Fatalf("%s: %d golden losses, want 10", name, len(inf.AdamW.Losses))
		}
		c := DefaultSFT()
		c.Epochs, c.BatchTokens = 10, 1<<20
		c.Optimizer = OptimizerConfig{LR: inf.AdamW.LR, Beta1: inf.AdamW.Betas[0], Beta2: inf.AdamW.Betas[1], Eps: inf.AdamW.Eps,
			WeightDecay: inf.AdamW.WeightDecay, Schedule: "constant"}
		s, err := NewSFT(c, load(t, name), samplesOf(set, "right"))
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range inf.AdamW.Losses {
			met, err := s.Step(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if !(math.Abs(met.Loss-want) <= 1e-5*want) {
				t.Errorf("%s, step %d: loss %v, Hugging Face has %v", name, i+1, met.Loss, want)
			}
		}
		_ = torch.Do(s.Close)
	}
}
