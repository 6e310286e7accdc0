package train

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"seadtrain/dialogue"
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

// The widths of Qwen2.5-0.5B's config.json, cut to 4 layers.
const qwenHalfB = `{"model_type":"qwen2","architectures":["Qwen2ForCausalLM"],"hidden_size":896,"intermediate_size":4864,"num_hidden_layers":4,
	"num_attention_heads":14,"num_key_value_heads":2,"vocab_size":151936,"max_position_embeddings":32768,"rope_theta":1000000.0,
	"rms_norm_eps":1e-6,"tie_word_embeddings":true,"bos_token_id":151643,"eos_token_id":151645,"torch_dtype":"bfloat16"}`

func TestQwenWidthsTrainAndExport(t *testing.T) {
	if testing.Short() {
		t.Skip("needs 5 GB of memory")
	}
	root := exportDir(t)
	config, err := model.ParseConfig([]byte(qwenHalfB))
	if err != nil {
		t.Fatal(err)
	}
	made, err := model.Init(config, model.Options{}, 7)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := made.Save(dir, model.SaveOptions{DType: torch.BF16, MaxShard: 100_000_000}); err != nil {
		t.Fatal(err)
	}
	_ = torch.Do(made.Close)
	if shards, _ := filepath.Glob(filepath.Join(dir, "model-*.safetensors")); len(shards) < 3 {
		t.Fatalf("%d shards", len(shards))
	}
	policy, err := model.Load(dir, model.Options{MaxPositions: 512})
	if err != nil {
		t.Fatal(err)
	}
	c := DefaultConfig()
	c.MiniBatches, c.HeadRows, c.Loss.KL = 1, 64, 0 // a random policy that is its own reference has no KL anyway
	c.Optimizer.LR = 1e-4
	tr, err := NewTrainer(c, policy, policy, nil, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = torch.Do(func() { tr.Close(); policy.Close() }) }()
	var episodes []*dialogue.Episode
	for i := range 2 {
		e := plain("q", 0, float64(i), 60, 30)
		for j := range e.Agent.Tokens {
			e.Agent.Tokens[j] = int32((j*7919 + i*13) % config.VocabSize)
			e.Agent.LogProbs[j] = -12
		}
		episodes = append(episodes, e)
	}
	met := step(t, tr, episodes...)
	if met.GradNorm == 0 || met.TrainedTokens != 60 || met.Steps != 1 {
		t.Errorf("%+v", met)
	}
	export(t, policy, filepath.Join(root, "qwen_widths"), model.SaveOptions{MaxShard: 300_000_000})
	list, err := os.ReadDir(filepath.Join(root, "qwen_widths"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(list, func(e os.DirEntry) bool { return e.Name() == "model.safetensors.index.json" }) {
		t.Errorf("no shards: %v", list)
	}
}
