package model_test

import (
	"path/filepath"
	"slices"
	"testing"

	"seadtrain/model"
	"seadtrain/torch"
)

// logits of the golden batch without padding.
func (g *golden) logits(t *testing.T, m *model.Model) (v []float32) {
	t.Helper()
	flat, pos, cu, _ := packed(g.ints(t, "plain.input_ids"), g.ints(t, "plain.attention_mask"))
	if err := torch.Do(func() { v = torch.Data[float32](m.Logits(m.Hidden(flat, pos, model.Packed{Cu: cu}))) }); err != nil {
		t.Fatal(err)
	}
	return v
}

// rounded is an fp32 copy whose matrices hold what a twin's do: the twin must compute with it as fp32 does. A tied head is
// not rounded in it.
func rounded(t *testing.T, m *model.Model, to torch.DType) *model.Model {
	t.Helper()
	n, err := m.Copy()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = torch.Do(n.Close) })
	if err := torch.Do(func() {
		for _, l := range n.Leaves() {
			w := l.Tensor
			switch {
			case !l.Matrix() || l == n.EmbedLeaf():
			case to == torch.I8:
				q, scale := torch.QuantizeRows(w)
				w.CopyInPlace(q.To(torch.F32, torch.CPU).Mul(scale.Reshape(-1, 1)))
			default:
				w.CopyInPlace(w.To(to, torch.CPU))
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// In every family a twin computes what its rounded weights say, to fp32's precision (shown where the head is not tied), and
// is as near to fp32 as its type lets it be: a weight of bf16 is off by 2⁻⁹ of itself at most, one of int8 by 1/254 of its
// row's largest, and 9 matrices follow one another.
func TestTwinIsNearItsSource(t *testing.T) {
	for _, name := range tiny {
		for _, c := range []struct {
			dt    torch.DType
			bound float64
		}{{torch.F32, 0}, {torch.BF16, 9. / 512}, {torch.I8, 9. / 254}} {
			t.Run(name+"/"+c.dt.String(), func(t *testing.T) {
				g := open(t, name)
				want := g.logits(t, g.m)
				before, _ := g.m.Checksum()
				twin, err := g.m.Twin(c.dt)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = torch.Do(twin.Close) }()
				got := g.logits(t, twin)
				off := relative(got, want)
				t.Logf("off by %.2g", off)
				if !(off <= c.bound) || (c.dt != torch.F32 && off < 1e-5) {
					t.Errorf("logits are off by %.2g of fp32's, want at most %.2g, and not nothing", off, c.bound)
				}
				if g.m.HeadLeaf() != g.m.EmbedLeaf() {
					if off := relative(got, g.logits(t, rounded(t, g.m, c.dt))); !(off <= 1e-5) {
						t.Errorf("logits are off by %.2g of those of the rounded weights", off)
					}
				}
				if after, _ := g.m.Checksum(); after != before {
					t.Error("the source has changed")
				}
				if twin.NumParams() != g.m.NumParams() || twin.DType != torch.F32 {
					t.Errorf("%d parameters, activations %v", twin.NumParams(), twin.DType)
				}
			})
		}
	}
}

// A tied twin looks rows up in the very embedding of its source, and its head alone is rounded.
func TestTwinOfATiedModelKeepsItsEmbedding(t *testing.T) {
	g := open(t, "llama_tied")
	twin, err := g.m.Twin(torch.I8)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = torch.Do(twin.Close) }()
	if err := torch.Do(func() {
		ids := g.m.Index([]int32{0, 5, 95})
		if !slices.Equal(torch.Data[float32](twin.Embed(ids)), torch.Data[float32](g.m.Embed(ids))) {
			t.Error("embeddings differ")
		}
		if a, b := twin.EmbedLeaf().Tensor.Bytes(), g.m.EmbedLeaf().Tensor.Bytes(); &a[0] != &b[0] {
			t.Error("the embedding is a copy")
		}
		if h := twin.HeadLeaf(); h == twin.EmbedLeaf() || h.Tensor.DType() != torch.I8 {
			t.Errorf("the head is %v", h.Tensor)
		}
		// 96 rows of 32 bytes and a scale each, against 4 bytes a weight
		if got, want := twin.HeadLeaf().Bytes(), int64(96*32+96*4); g.m.EmbedLeaf().Bytes() != 96*32*4 || got != want {
			t.Errorf("the head takes %d bytes, want %d; the embedding %d", got, want, g.m.EmbedLeaf().Bytes())
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// After a change of the source a refreshed twin is what a fresh one is, in the memory that it had; without Refresh it is not.
func TestTwinRefresh(t *testing.T) {
	for _, name := range []string{"qwen2_tied", "qwen3_untied"} {
		for _, held := range []torch.DType{torch.F32, torch.BF16} {
			for _, dt := range []torch.DType{torch.F32, torch.BF16, torch.I8} {
				t.Run(name+"/"+held.String()+"/"+dt.String(), func(t *testing.T) {
					g := open(t, name)
					m, err := model.Load(filepath.Join("testdata", "tiny", name), model.Options{DType: held})
					if err != nil {
						t.Fatal(err)
					}
					twin, err := m.Twin(dt)
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = torch.Do(func() { twin.Close(); m.Close() }) }()
					before := g.logits(t, twin)
					var at []*byte
					if err := torch.Do(func() {
						for _, l := range twin.Leaves() {
							at = append(at, &l.Tensor.Bytes()[0])
						}
						for _, l := range m.Leaves() {
							l.Tensor.MulScalarInPlace(1.25)
						}
					}); err != nil {
						t.Fatal(err)
					}
					if err := twin.Refresh(); err != nil {
						t.Fatal(err)
					}
					fresh, err := m.Twin(dt)
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = torch.Do(fresh.Close) }()
					after := g.logits(t, twin)
					if !slices.Equal(after, g.logits(t, fresh)) || relative(after, before) < .01 {
						t.Errorf("refreshed logits are off by %.2g of fresh ones, by %.2g of those before", relative(after, g.logits(t, fresh)), relative(after, before))
					}
					if err := torch.Do(func() {
						for i, l := range twin.Leaves() {
							if at[i] != &l.Tensor.Bytes()[0] {
								t.Errorf("%s lies elsewhere", l.Name)
							}
						}
					}); err != nil {
						t.Fatal(err)
					}
				})
			}
		}
	}
}

// A model held in bf16 generates through a twin of the same weights, with fp32 activations: nearer to what fp32 makes of them
// than the model itself.
func TestTwinOfABf16Model(t *testing.T) {
	for _, name := range tiny {
		g := open(t, name)
		m, err := model.Load(filepath.Join("testdata", "tiny", name), model.Options{DType: torch.BF16})
		if err != nil {
			t.Fatal(err)
		}
		twin, err := m.Twin(torch.BF16)
		if err != nil {
			t.Fatal(err)
		}
		exact, err := m.Twin(torch.F32)
		if err != nil {
			t.Fatal(err)
		}
		want := g.logits(t, exact)
		if off, own := relative(g.logits(t, twin), want), relative(g.logits(t, m), want); !(off <= 1e-5) || own < 10*off {
			t.Errorf("%s: logits are off by %.2g through the twin, by %.2g in bf16", name, off, own)
		}
		if err := torch.Do(func() {
			a, b := m.EmbedLeaf().Tensor.Bytes(), twin.EmbedLeaf().Tensor.Bytes()
			if &a[0] != &b[0] {
				t.Errorf("%s: the embedding is a copy", name)
			}
			m.Close() // what is shared lives on
		}); err != nil {
			t.Fatal(err)
		}
		if off := relative(g.logits(t, twin), want); !(off <= 1e-5) {
			t.Errorf("%s: off by %.2g when the source is closed", name, off)
		}
		if err := twin.Refresh(); err == nil {
			t.Errorf("%s: refreshed from a closed model", name)
		}
		_ = torch.Do(func() { twin.Close(); exact.Close() })
	}
}

func TestTwinRefusals(t *testing.T) {
	g := open(t, "qwen2_tied")
	twin, err := g.m.Twin(torch.BF16)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = torch.Do(twin.Close) }()
	meta, err := model.Init(g.m.Config, model.Options{DType: torch.F32, Device: torch.Meta}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = torch.Do(meta.Close) }()
	for what, f := range map[string]func() error{
		"twin of a twin": func() error { _, err := twin.Twin(torch.BF16); return err },
		"copy":           func() error { _, err := twin.Copy(); return err },
		"save":           func() error { return twin.Save(t.TempDir(), model.SaveOptions{DType: torch.F32}) },
		"fp16":           func() error { _, err := g.m.Twin(torch.F16); return err },
		"on meta":        func() error { _, err := meta.Twin(torch.BF16); return err },
	} {
		if err := f(); err == nil {
			t.Errorf("%s: not refused", what)
		}
	}
}
