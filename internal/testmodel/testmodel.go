// Package testmodel makes a model for tests that need a whole directory and no skill: the nano tokenizer, random weights
// a few kilobytes in size.
package testmodel

import (
	"fmt"
	"path/filepath"
	"testing"

	"seadtrain/internal/hfdir"
	"seadtrain/model"
	"seadtrain/model/tokenizer"
	"seadtrain/torch"
)

// Tiny writes the directory and returns it. The same seed gives the same bytes.
func Tiny(t testing.TB, seed uint64) string {
	t.Helper()
	nano, err := hfdir.Resolve("embedded:nano")
	if err != nil {
		t.Fatal(err)
	}
	c, err := model.LoadConfig(nano)
	if err != nil {
		t.Fatal(err)
	}
	c.HiddenSize, c.IntermediateSize, c.NumHiddenLayers = 32, 48, 1
	c.NumAttentionHeads, c.NumKeyValueHeads, c.HeadDim = 2, 2, 16
	m, err := model.Init(c, model.Options{DType: torch.F32}, seed)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	dir := filepath.Join(t.TempDir(), "tiny")
	if err := m.Save(dir, model.SaveOptions{DType: torch.F32}); err != nil {
		t.Fatal(err)
	}
	if err := tokenizer.CopyFiles(dir, nano); err != nil {
		t.Fatal(err)
	}
	return dir
}

// RunConfig is the TOML of a run of four steps that takes a second or two: guided mode, since random weights keep to no
// form of their own.
func RunConfig(model string) string {
	return fmt.Sprintf(`
name = "tiny"
model = %q
scenario = "nano/en"
iterations = 2
group = 3
threads = 1
dtype = "fp32"
checkpoint = { every = 2, keep_last = 0 }
[eval]
profiles = 4
users = ["frozen", "rules"]
[curriculum]
profiles = 3
period = 2
min_count = 1
[rollout]
mode = "guided"
max_turns = 3
max_dialogues = 6
max_rows = 64
precision = "fp32"
user_precision = "fp32"
agent = { max_tokens = 48, context = 300 }
user = { max_tokens = 64, context = 400 }
[train]
mini_batches = 2
micro_batch_tokens = 512
optimizer = { lr = 1e-2 }
`, model)
}
