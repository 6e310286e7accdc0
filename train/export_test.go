package train

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"seadtrain/model"
	"seadtrain/model/safetensors"
	"seadtrain/torch"
)

// exportDir is where the tests below leave their checkpoints: test/interop/test_training.py gives a folder and loads them
// with transformers.
func exportDir(t *testing.T) string {
	if dir := os.Getenv("SEADTRAIN_EXPORT"); dir != "" {
		return dir
	}
	return t.TempDir()
}

// export saves the policy with its logits for a few tokens, and checks that loading gives the same weights again.
func export(t *testing.T, m *model.Model, dir string, o model.SaveOptions) {
	t.Helper()
	if err := m.Save(dir, o); err != nil {
		t.Fatal(err)
	}
	var ids, pos []int32
	for i := range int32(24) {
		ids, pos = append(ids, (1+i*i*31)%int32(m.Config.VocabSize)), append(pos, i)
	}
	var logits []float32
	if err := torch.Do(func() {
		logits = torch.Data[float32](m.Logits(m.Hidden(ids, pos, model.Packed{Cu: []int64{0, int64(len(ids))}})))
	}); err != nil {
		t.Fatal(err)
	}
	source := func(name string, v []float32, shape ...int) safetensors.Source {
		b, err := safetensors.AppendFloat32s(nil, safetensors.F32, v)
		if err != nil {
			t.Fatal(err)
		}
		return safetensors.Bytes(name, safetensors.F32, shape, b)
	}
	var numbers []float32
	for _, id := range ids {
		numbers = append(numbers, float32(id))
	}
	if err := safetensors.Write(dir+".logits.safetensors", nil, []safetensors.Source{source("ids", numbers, len(ids)), source("logits", logits, len(ids), m.Config.VocabSize)}); err != nil {
		t.Fatal(err)
	}
	again, err := model.Load(dir, model.Options{DType: o.DType})
	if err != nil {
		t.Fatal(err)
	}
	if checksum(t, again) != checksum(t, m) {
		t.Errorf("%s: loading gives other weights", dir)
	}
	_ = torch.Do(again.Close)
}

func TestTrainedCheckpointsLoadAgain(t *testing.T) {
	root := exportDir(t)
	for _, name := range tiny {
		tr, episodes, err := rankTrainer(name, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		before := checksum(t, tr.Policy)
		if _, err := tr.Step(context.Background(), episodes, 5); err != nil {
			t.Fatal(err)
		}
		if checksum(t, tr.Policy) == before {
			t.Errorf("%s: nothing was trained", name)
		}
		export(t, tr.Policy, filepath.Join(root, name), model.SaveOptions{MaxShard: 40_000})
		tr.free()
	}
}
