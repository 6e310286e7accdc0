package model_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seadtrain/internal/ranktest"
	"seadtrain/model"
	"seadtrain/model/safetensors"
	"seadtrain/torch"
)

func TestMain(m *testing.M) {
	ranktest.Main(m, map[string]func(*ranktest.Rank) error{"model": rankModel})
}

// seeded is a config whose parts all occur: GQA, biases, norms of heads, an untied head.
func seeded(family string) *model.Config {
	c, err := model.ParseConfig(fmt.Appendf(nil, `{"model_type":%q,"vocab_size":64,"hidden_size":24,"intermediate_size":40,"num_hidden_layers":2,
		"num_attention_heads":4,"num_key_value_heads":2,"head_dim":6,"max_position_embeddings":64,"attention_bias":true,"mlp_bias":%v,
		"tie_word_embeddings":%v}`, family, family == model.Llama, family == model.Qwen3))
	if err != nil {
		panic(err)
	}
	return c
}

var families = []string{model.Qwen2, model.Qwen3, model.Llama}

// logitsOf runs three sequences and gives the gathered logits.
func logitsOf(m *model.Model) (out []float32, err error) {
	var ids, pos []int32
	for i := range 40 {
		ids, pos = append(ids, int32(i*37%m.Config.VocabSize)), append(pos, int32(i%20))
	}
	err = torch.Do(func() { out = torch.Data[float32](m.Logits(m.Hidden(ids, pos, model.Packed{Cu: []int64{0, 20, 40}}))) })
	return out, err
}

// twinLogits are logitsOf a twin in bf16. (In int8 a rank has its own scales where columns are split.)
func twinLogits(m *model.Model) ([]float32, error) {
	twin, err := m.Twin(torch.BF16)
	if err != nil {
		return nil, err
	}
	out, err := logitsOf(twin)
	return out, errors.Join(err, torch.Do(twin.Close))
}

// rankModel: what the ranks load, they save and compute as one rank does.
func rankModel(r *ranktest.Rank) error {
	o := model.Options{TP: r.TP}
	for _, name := range tiny {
		m, err := model.Load(filepath.Join("testdata", "tiny", name), o)
		if err != nil {
			return err
		}
		if err := leave(r, m, name); err != nil {
			return err
		}
	}
	for _, f := range families {
		m, err := model.Init(seeded(f), o, 9)
		if err != nil {
			return err
		}
		if err := leave(r, m, "init-"+f); err != nil {
			return err
		}
	}
	return nil
}

// leave writes the model, a copy of it, and its logits as this rank has them; the model is closed.
func leave(r *ranktest.Rank, m *model.Model, name string) error {
	dir := filepath.Join(r.Dir, name)
	if err := m.Save(dir, model.SaveOptions{MaxShard: 20_000}); err != nil {
		return err
	}
	sum, err := m.Checksum()
	if err != nil {
		return err
	}
	c, err := m.Copy()
	if err != nil {
		return err
	}
	if again, err := c.Checksum(); err != nil || again != sum {
		return fmt.Errorf("%s: a copy has another checksum (%v)", name, err)
	}
	logits, err := logitsOf(m)
	if err != nil {
		return err
	}
	twin, err := twinLogits(m)
	if err != nil {
		return err
	}
	// The copy is its own memory: it computes the same after the original is gone.
	if err := torch.Do(func() {
		for _, l := range m.Leaves() {
			l.Tensor.ZeroInPlace()
		}
		m.Close()
	}); err != nil {
		return err
	}
	again, err := logitsOf(c)
	if err != nil {
		return err
	}
	for i := range logits {
		if logits[i] != again[i] {
			return fmt.Errorf("%s: logit %d of a copy is %v, the original's was %v", name, i, again[i], logits[i])
		}
	}
	if err := torch.Do(c.Close); err != nil {
		return err
	}
	return safetensors.Write(fmt.Sprintf("%s.%d.safetensors", dir, r.TP.Rank()), nil, []safetensors.Source{floats("logits", logits), floats("twin", twin)})
}

func floats(name string, v []float32) safetensors.Source {
	b, err := safetensors.AppendFloat32s(nil, safetensors.F32, v)
	if err != nil {
		panic(err)
	}
	return safetensors.Bytes(name, safetensors.F32, []int{len(v)}, b)
}

func TestRanksLoadSaveAndComputeAsOne(t *testing.T) {
	want := map[string]*model.Model{}
	for _, name := range tiny {
		want[name] = open(t, name).m
	}
	for _, f := range families {
		m, err := model.Init(seeded(f), model.Options{}, 9)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = torch.Do(m.Close) })
		want["init-"+f] = m
	}
	dir := ranktest.Run(t, "model", 2, 1)
	for name, m := range want {
		one := t.TempDir()
		if err := m.Save(one, model.SaveOptions{MaxShard: 20_000}); err != nil {
			t.Fatal(err)
		}
		sameFiles(t, name, filepath.Join(dir, name), one)
		want := map[string][]float32{}
		var err error
		if want["logits"], err = logitsOf(m); err != nil {
			t.Fatal(err)
		}
		if want["twin"], err = twinLogits(m); err != nil {
			t.Fatal(err)
		}
		for r := range 2 {
			set, err := safetensors.Open(fmt.Sprintf("%s.%d.safetensors", filepath.Join(dir, name), r))
			if err != nil {
				t.Fatal(err)
			}
			for what, logits := range want {
				got, err := set.Get(what).Float32s()
				if err != nil {
					t.Fatal(err)
				}
				if d := relative(got, logits); !(d <= 1e-5) {
					t.Errorf("%s: rank %d's %s are off by %.2g", name, r, what, d)
				}
			}
			set.Close()
		}
	}
}

// sameFiles compares two directories byte for byte.
func sameFiles(t *testing.T, name, got, want string) {
	t.Helper()
	list, err := os.ReadDir(want)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadDir(got)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != len(other) || len(list) < 3 { // config, index, shards
		t.Errorf("%s: %d files, one rank writes %d", name, len(other), len(list))
	}
	for _, e := range list {
		a, err := os.ReadFile(filepath.Join(got, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(want, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s: %s differs from what one rank writes", name, e.Name())
		}
	}
}

func TestCheckTP(t *testing.T) {
	c := seeded(model.Qwen2) // 4 heads, 2 key/value heads, MLP 40, vocabulary 64
	for _, x := range []struct {
		size int
		want string
	}{{1, ""}, {2, ""}, {3, "num_attention_heads is 4"}, {4, "num_key_value_heads is 2"}, {0, "want at least 1"}} {
		err := c.CheckTP(x.size)
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%d ranks: %v, want %q", x.size, err, x.want)
		}
	}
	c.NumAttentionHeads, c.NumKeyValueHeads = 8, 8
	c.IntermediateSize = 42
	if err := c.CheckTP(4); err == nil || !strings.Contains(err.Error(), "intermediate_size is 42") {
		t.Errorf("MLP: %v", err)
	}
	c.IntermediateSize, c.VocabSize = 40, 66
	if err := c.CheckTP(4); err == nil || !strings.Contains(err.Error(), "vocab_size is 66") {
		t.Errorf("vocabulary: %v", err)
	}
	if err := c.CheckTP(16); err == nil || strings.Count(err.Error(), "\n") < 2 {
		t.Errorf("not everything at once: %v", err)
	}
}
