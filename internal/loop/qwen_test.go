package loop

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"seadtrain/dialogue"
	"seadtrain/internal/config"
	"seadtrain/internal/progress"
	"seadtrain/internal/rundir"
	"seadtrain/model"
	"seadtrain/model/tokenizer"
	"seadtrain/torch"
)

// The widths of Qwen2.5-0.5B's config.json, cut to 4 layers.
const qwenHalfB = `{"model_type":"qwen2","architectures":["Qwen2ForCausalLM"],"hidden_size":896,"intermediate_size":4864,"num_hidden_layers":4,
	"num_attention_heads":14,"num_key_value_heads":2,"vocab_size":151936,"max_position_embeddings":32768,"rope_theta":1000000.0,
	"rms_norm_eps":1e-6,"tie_word_embeddings":true,"bos_token_id":151643,"eos_token_id":151645,"torch_dtype":"bfloat16"}`

const qwenRun = `
name = "qwen"
scenario = "outbound/zh"
iterations = 1
group = 2
dtype = "fp32"
[eval]
profiles = 0
[curriculum]
profiles = 1
period = 1
[rollout]
max_turns = 1
max_dialogues = 2
agent = { max_tokens = 72, context = 2048 }
user = { max_tokens = 100, context = 2048 }
[train]
mini_batches = 1
micro_batch_tokens = 2048
head_rows = 64
optimizer = { lr = 1e-4 }
`

// A sharded directory at random, at the widths of a real model and with its tokenizer: dialogues, a training step, a
// checkpoint. test/interop/test_training.py gives a folder for the checkpoint and loads it with transformers.
func TestQwenWidths(t *testing.T) {
	if testing.Short() {
		t.Skip("needs 6 GB of memory")
	}
	out := os.Getenv("SEADTRAIN_EXPORT")
	if out == "" {
		out = t.TempDir()
	}
	source := filepath.Join(t.TempDir(), "qwen")
	c, err := model.ParseConfig([]byte(qwenHalfB))
	if err != nil {
		t.Fatal(err)
	}
	made, err := model.Init(c, model.Options{}, 7)
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Save(source, model.SaveOptions{DType: torch.BF16, MaxShard: 100_000_000}); err != nil {
		t.Fatal(err)
	}
	made.Close()
	if shards, _ := filepath.Glob(filepath.Join(source, "model-*.safetensors")); len(shards) < 3 {
		t.Fatalf("%d shards", len(shards))
	}
	if err := tokenizer.CopyFiles(source, filepath.Join("..", "..", "third_party", "models", "qwen2.5-tokenizer")); err != nil {
		t.Fatalf("%v (make test-models fetches it)", err)
	}

	cfg := Default()
	if err := config.Parse("qwen.toml", []byte(qwenRun), []string{"model=" + source}, &cfg); err != nil {
		t.Fatal(err)
	}
	dir, err := rundir.Open(filepath.Join(out, "qwen_run"))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	r, err := open(&cfg, dir, progress.New(os.Stderr))
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	before, err := r.stage.Agent.Model.Checksum()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.step(context.Background(), 1); err != nil {
		t.Fatal(err)
	}
	if err := r.checkpoint(); err != nil { // compares the frozen model's checksum, too
		t.Fatal(err)
	}
	if after, err := r.stage.Agent.Model.Checksum(); err != nil || after == before {
		t.Errorf("the weights have not changed: %v", err)
	}
	episodes, err := dialogue.ReadEpisodes(dir.Step("episodes", 1))
	if err != nil || len(episodes) != 2 {
		t.Fatalf("%d dialogues, %v", len(episodes), err)
	}
	for _, ep := range episodes {
		if ep.Turns == 0 || ep.End.Excluded() || ep.End == dialogue.EndAgentMalformed {
			t.Errorf("%s: %d turns, %s", ep.ID, ep.Turns, ep.End)
		}
	}
	again, err := model.Load(filepath.Join(dir.Path, "checkpoints", "step-1"), model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	want, err := r.stage.Agent.Model.Checksum()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := again.Checksum(); err != nil || got != want {
		t.Errorf("the checkpoint holds other weights: %v", err)
	}
}
