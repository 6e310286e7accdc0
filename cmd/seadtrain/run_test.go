package main

import (
	"path/filepath"
	"testing"

	"seadtrain/internal/testmodel"
)

// Every run makes a directory of its own, unless --run-dir names one.
func TestEveryRunHasItsOwnDirectory(t *testing.T) {
	base := t.TempDir()
	cfg := write(t, base, "a.toml", testmodel.RunConfig(testmodel.Tiny(t, 1)))
	for n := 1; n <= 2; n++ {
		cmd := program(t, "run", cfg, "--max-steps=1", "--set", "eval.profiles=0")
		cmd.Dir = base
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if all, _ := filepath.Glob(filepath.Join(base, "runs", "*", "checkpoints", "step-1", "manifest.json")); len(all) != n {
			t.Fatalf("after %d runs there are %q", n, all)
		}
	}
}
