package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seadtrain/dialogue"
	"seadtrain/internal/loop"
	"seadtrain/internal/testenv"
	"seadtrain/model/safetensors"
)

// A real pretrained model goes through the whole loop in the guided protocol: within three rollout batches some group has a
// non-zero advantage, the weights change, and the dialogues can be read. `make test` plays one profile and one turn and
// stops at the first such group; `make nightly` runs the config as it is.
func TestSmolLM2(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute of training")
	}
	source, err := filepath.Abs("../../third_party/models/SmolLM2-135M-Instruct")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(source, "config.json")); err != nil {
		testenv.Missing(t, "%v (make test-models makes it)", err)
	}
	run := filepath.Join(t.TempDir(), "run")
	args := []string{"run", "../../configs/smollm2.toml", "--run-dir", run, "--set", "model=" + source}
	profiles, whole := 2, testenv.Nightly(0, 1) == 1
	if !whole {
		profiles = 1
		args = append(args, "--max-steps=1", "--set", "curriculum.profiles=1", "--set", "rollout.max_turns=1", "--set", "train.mini_batches=1",
			"--set", "rollout.agent.max_tokens=84", "--set", "rollout.user.max_tokens=112")
	}
	teaching := 0 // groups with a non-zero advantage
	steps := 0
	for steps < 3 && teaching == 0 {
		cmd := program(t, args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		lines := strings.Split(strings.TrimSpace(read(t, filepath.Join(run, "metrics.jsonl"))), "\n")
		if want := steps + 1; len(lines) != want && (!whole || len(lines) != 3) {
			t.Fatalf("%d steps in metrics.jsonl", len(lines))
		}
		for steps < len(lines) {
			var m loop.Metrics
			if err := json.Unmarshal([]byte(lines[steps]), &m); err != nil {
				t.Fatal(err)
			}
			steps++
			teaching += m.Train.Groups - m.Train.ZeroGroups
			state := cmd.ProcessState
			t.Logf("step %d: ends %v, %d of %d groups without an advantage; %v of processor time", steps, m.Ends, m.Train.ZeroGroups, m.Train.Groups,
				state.UserTime()+state.SystemTime())
			episodes, err := dialogue.ReadEpisodes(filepath.Join(run, "episodes", fmt.Sprintf("step-%d.jsonl", steps)))
			if err != nil || len(episodes) != 4*profiles {
				t.Fatalf("step %d: %d dialogues, want %d: %v", steps, len(episodes), 4*profiles, err)
			}
			for _, ep := range episodes {
				if len(ep.Messages) < 2 || ep.Messages[0].Content == "" || ep.Messages[1].Content == "" || ep.End.Excluded() {
					t.Errorf("%s cannot be read, or does not count: %s, %+v", ep.ID, ep.End, ep.Messages)
				}
			}
		}
	}
	if teaching == 0 {
		t.Error("no group of three batches has a non-zero advantage")
	}

	before, after := weights(t, source), weights(t, filepath.Join(run, "checkpoints", fmt.Sprint("step-", steps)))
	changed := 0
	for _, name := range before.Names() {
		if now := after.Get(name); now == nil {
			t.Errorf("the checkpoint has no %s", name)
		} else if !bytes.Equal(now.Data, before.Get(name).Data) {
			changed++
		}
	}
	if n := len(before.Names()); n < 200 || changed < n {
		t.Errorf("%d of %d tensors have changed", changed, n)
	}
}

func weights(t *testing.T, dir string) *safetensors.Set {
	t.Helper()
	set, err := safetensors.Open(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	return set
}
