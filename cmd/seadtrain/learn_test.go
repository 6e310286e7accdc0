package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"seadtrain/dialogue"
	"seadtrain/internal/loop"
	"seadtrain/internal/nano"
	"seadtrain/scenarios"
)

// What `make run` does, whole: the shipped model learns on held-out users, against the frozen role-play model and under
// the true rules, beyond doubt (95 % intervals that do not overlap), in at most 6 minutes on a quiet machine of two cores.
// The role-play model's own form and fidelity are checked on the dialogues before training.
func TestNanoLearns(t *testing.T) {
	if testing.Short() {
		t.Skip("minutes of training")
	}
	dir := filepath.Join(t.TempDir(), "run")
	cmd := program(t, "run", "../../configs/nano.toml", "--run-dir", dir, "--json")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	start := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	t.Logf("the run took %.0f s, %.0f s of processor time", time.Since(start).Seconds(), cpu.Seconds())
	if cpu > 12*time.Minute { // two cores for 6 minutes: processor time holds on a busy machine, too
		t.Errorf("the run took %v of processor time, want at most 12 minutes", cpu)
	}
	var s loop.Summary
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		t.Fatalf("%v in %q", err, out.String())
	}
	if len(s.HeldOut) != 2 {
		t.Fatalf("%d held-out evaluations, want frozen and rules", len(s.HeldOut))
	}
	for _, c := range s.HeldOut {
		before, after := c.Before.Published.CR, c.After.Published.CR
		t.Logf("%s: %v → %v", c.User, before, after)
		if c.Before.Dialogues < 230 || before.Overlaps(after) || *after.Value < *before.Value {
			t.Errorf("%s: completion %v before and %v after: want intervals that do not overlap", c.User, before, after)
		}
	}
	for _, step := range []int{0, s.Steps} {
		checkRolePlay(t, filepath.Join(dir, "eval", fmt.Sprintf("step-%d-frozen.jsonl", step)))
	}
}

// checkRolePlay holds the frozen model to the world's rules, turn by turn.
func checkRolePlay(t *testing.T, file string) {
	t.Helper()
	scn, err := scenarios.Load("nano", "en")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := nano.NewRules(scn)
	if err != nil {
		t.Fatal(err)
	}
	episodes, err := dialogue.ReadEpisodes(file)
	if err != nil {
		t.Fatal(err)
	}
	var sum nano.Fidelity
	for i := range episodes {
		f, err := rules.Judge(&episodes[i])
		if err != nil {
			t.Fatal(err)
		}
		sum.Add(f)
	}
	t.Logf("%s: format %.4f, state %.3f", filepath.Base(file), sum.FormatRate(), sum.StateAgreement())
	if sum.FormatRate() < .995 || sum.StateAgreement() < .9 {
		t.Errorf("%s: format %.4f per turn, want .995; state agreement %.3f, want .9", file, sum.FormatRate(), sum.StateAgreement())
	}
}
