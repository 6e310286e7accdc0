package model_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"seadtrain/model"
	"seadtrain/model/safetensors"
	"seadtrain/torch"
)

var tiny = []string{"qwen2_tied", "qwen2_untied", "qwen3_tied", "qwen3_untied", "llama_tied", "llama_untied"}

// golden is one tiny model with what Hugging Face made of it.
type golden struct {
	m   *model.Model
	set *safetensors.Set
}

func open(t *testing.T, name string) *golden {
	t.Helper()
	dir := filepath.Join("testdata", "tiny", name)
	m, err := model.Load(dir, model.Options{DType: torch.F32})
	if err != nil {
		t.Fatal(err)
	}
	set, err := safetensors.Open(filepath.Join(dir, "golden.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = torch.Do(m.Close); set.Close() })
	return &golden{m, set}
}

func (g *golden) floats(t *testing.T, name string) []float32 {
	t.Helper()
	x := g.set.Get(name)
	if x == nil {
		t.Fatalf("no golden %q", name)
	}
	v, err := x.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (g *golden) ints(t *testing.T, name string) [][]int32 {
	t.Helper()
	x := g.set.Get(name)
	if x == nil {
		t.Fatalf("no golden %q", name)
	}
	out := make([][]int32, x.Shape[0])
	for i := range out {
		out[i] = make([]int32, x.Shape[1])
		for j := range out[i] {
			out[i][j] = int32(binary.LittleEndian.Uint64(x.Data[8*(i*x.Shape[1]+j):]))
		}
	}
	return out
}

// relative is the largest difference as a share of the largest value.
func relative(got, want []float32) float64 {
	if len(got) != len(want) || len(want) == 0 {
		return math.Inf(1)
	}
	var d, m float64
	for i := range want {
		d = math.Max(d, math.Abs(float64(got[i])-float64(want[i])))
		m = math.Max(m, math.Abs(float64(want[i])))
	}
	return d / m
}

// packed lists the real tokens of a padded batch, one sequence after another, and where they stood.
func packed(ids, mask [][]int32) (flat, pos []int32, cu []int64, rows []int) {
	cu = []int64{0}
	for b := range ids {
		p := int32(0)
		for j := range ids[b] {
			if mask[b][j] == 1 {
				flat, pos, rows = append(flat, ids[b][j]), append(pos, p), append(rows, b*len(ids[b])+j)
				p++
			}
		}
		cu = append(cu, int64(len(flat)))
	}
	return
}

func TestLogitsEqualHuggingFace(t *testing.T) {
	for _, name := range tiny {
		g := open(t, name)
		for _, batch := range []string{"plain", "right", "left"} {
			t.Run(name+"/"+batch, func(t *testing.T) {
				flat, pos, cu, rows := packed(g.ints(t, batch+".input_ids"), g.ints(t, batch+".attention_mask"))
				var got []float32
				if err := torch.Do(func() {
					got = torch.Data[float32](g.m.Logits(g.m.Hidden(flat, pos, model.Packed{Cu: cu})))
				}); err != nil {
					t.Fatal(err)
				}
				v := g.m.Config.VocabSize
				var want []float32
				all := g.floats(t, batch+".logits")
				for _, r := range rows {
					want = append(want, all[r*v:(r+1)*v]...)
				}
				if d := relative(got, want); !(d <= 1e-5) {
					t.Errorf("logits are off by %.2g", d)
				}
			})
		}
	}
}

// Prompt in one chunk, then token by token through the paged cache, over block borders: the same hidden states.
func TestCachedDecodeEqualsFullForward(t *testing.T) {
	for _, name := range tiny {
		t.Run(name, func(t *testing.T) {
			g := open(t, name)
			const n, prompt = 80, 29
			ids, pos := make([]int32, n), make([]int32, n)
			for i := range ids {
				ids[i], pos[i] = int32(3+i*7%90), int32(i)
			}
			cache, err := model.NewCache(g.m, 8)
			if err != nil {
				t.Fatal(err)
			}
			defer cache.Close()
			rows := &torch.Rows{Width: 3}
			for _, skip := range []int{2, 1, 3} { // the blocks need not lie in order
				for range skip {
					b, _ := cache.Alloc()
					rows.Table = append(rows.Table[:min(len(rows.Table), 2)], b)
				}
			}
			var full, cached []float32
			if err := torch.Do(func() {
				full = torch.Data[float32](g.m.Hidden(ids, pos, model.Packed{Cu: []int64{0, n}}))
				for from := 0; from < n; {
					to := from + 1
					if from == 0 {
						to = prompt
					}
					rows.Seq, rows.Pos = make([]int32, to-from), pos[from:to]
					cached = append(cached, torch.Data[float32](g.m.Hidden(ids[from:to], pos[from:to], cache.View(rows)))...)
					from = to
				}
			}); err != nil {
				t.Fatal(err)
			}
			if d := relative(cached, full); !(d <= 1e-5) {
				t.Errorf("hidden states are off by %.2g", d)
			}
		})
	}
}

func TestGreedyEqualsHuggingFace(t *testing.T) {
	for _, name := range tiny {
		g := open(t, name)
		prompts, masks, want := g.ints(t, "greedy.prompt"), g.ints(t, "greedy.mask"), g.ints(t, "greedy.tokens")
		for b := range prompts {
			var ids []int32
			for j, m := range masks[b] {
				if m == 1 {
					ids = append(ids, prompts[b][j])
				}
			}
			for i, w := range want[b] {
				var got int32
				if err := torch.Do(func() {
					pos := make([]int32, len(ids))
					for p := range pos {
						pos[p] = int32(p)
					}
					h := g.m.Hidden(ids, pos, model.Packed{Cu: []int64{0, int64(len(ids))}})
					got = torch.Sample(g.m.Logits(h.Narrow(0, int64(len(ids)-1), 1)), []torch.Draw{{}}, nil)[0].ID
				}); err != nil {
					t.Fatal(err)
				}
				if got != w {
					t.Fatalf("%s, prompt %d, token %d: %d, Hugging Face has %d", name, b, i, got, w)
				}
				ids = append(ids, got)
			}
		}
	}
}

func TestSaveAndLoadGiveTheSameWeights(t *testing.T) {
	for _, name := range tiny {
		g := open(t, name)
		for _, shard := range []int64{0, 30_000} {
			dir := filepath.Join(t.TempDir(), fmt.Sprint(shard))
			if err := g.m.Save(dir, model.SaveOptions{DType: torch.F32, MaxShard: shard}); err != nil {
				t.Fatal(err)
			}
			again, err := model.Load(dir, model.Options{DType: torch.F32})
			if err != nil {
				t.Fatal(err)
			}
			a, _ := g.m.Checksum()
			b, _ := again.Checksum()
			if a != b || a == "" {
				t.Errorf("%s: weights changed", name)
			}
			_ = torch.Do(again.Close)
		}
	}
}
