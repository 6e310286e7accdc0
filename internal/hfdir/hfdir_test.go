package hfdir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seadtrain/model"
	"seadtrain/torch"
)

// The embedded model is found from any folder; a cache that was tampered with is mended; without a writable cache folder
// the one for temporary files does.
func TestEmbedded(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Chdir(t.TempDir())
	dir, err := Resolve("embedded:nano")
	if err != nil || !strings.HasPrefix(dir, cache) {
		t.Fatal(dir, err)
	}
	file := filepath.Join(dir, "tokenizer.json")
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, want[:len(want)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	if again, err := Resolve("embedded:nano"); err != nil || again != dir {
		t.Fatal(again, err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != string(want) {
		t.Errorf("a cut file stays cut: %d bytes, %v", len(got), err)
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "seadtrain", ".*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	t.Setenv("XDG_CACHE_HOME", file) // a file: no folder can be made in it
	t.Setenv("TMPDIR", t.TempDir())
	if dir, err := Resolve("embedded:nano"); err != nil || !strings.HasPrefix(dir, os.Getenv("TMPDIR")) {
		t.Error(dir, err)
	}
	b, err := OpenOrInit("embedded:nano", model.Options{DType: torch.F32}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	out := t.TempDir()
	if err := b.Save(out, model.SaveOptions{DType: torch.BF16}); err != nil {
		t.Fatal(err)
	}
	again, err := Open(out, model.Options{DType: torch.F32})
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ ref, want string }{
		{"embedded:none", "it has embedded:nano"},
		{"embedded:../nano", "it has embedded:nano"},
		{filepath.Join(dir, "none"), "no such file"},
		{filepath.Join(dir, "SmolLM2-135M-Instruct"), "no such file or directory: make smollm2 brings it"},
		{dir, "tokenizer.json: no such file"},
	} {
		if _, err := Open(c.ref, model.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.ref, err, c.want)
		}
	}
	nano, err := Resolve("embedded:nano")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"config.json", "tokenizer.json", "tokenizer_config.json"} {
		text, err := os.ReadFile(filepath.Join(nano, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(dir, model.Options{}); err == nil || !strings.Contains(err.Error(), "it has no weights") {
		t.Errorf("without weights: %v", err)
	}
}
