package torch

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"seadtrain/internal/testenv"
)

// cgoFiles lists the .go files under root that import "C", outside of root's torch folder.
func cgoFiles(root string) (found []string, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if d.IsDir() {
			switch rel {
			case "torch", "build", "third_party", "runs", ".git", ".cache":
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range f.Imports {
			if i.Path.Value == `"C"` {
				found = append(found, rel)
			}
		}
		return nil
	})
	return
}

func TestOnlyTorchImportsC(t *testing.T) {
	found, err := cgoFiles("..")
	if err != nil || len(found) > 0 {
		t.Errorf("only torch/ may import \"C\": %v, %v", found, err)
	}
	cheat := filepath.Join(t.TempDir(), "model")
	if err := os.MkdirAll(cheat, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cheat, "fast.go"), []byte("package model\n\nimport \"C\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if found, err := cgoFiles(filepath.Dir(cheat)); err != nil || len(found) != 1 {
		t.Errorf("a file that does is not found: %v, %v", found, err)
	}
}

// Every package whose tests touch tensors ends them with CheckLeaks.
func TestEveryPackageChecksForLeaks(t *testing.T) {
	uses := regexp.MustCompile(`"seadtrain/(torch|model|internal/testmodel|internal/ranktest)"`)
	checks := regexp.MustCompile(`CheckLeaks\(m\.Run\)|ranktest\.Main\(m,`)
	packages := map[string]bool{} // with such tests: checked or not
	for _, pattern := range []string{"../*/*_test.go", "../*/*/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if dir := filepath.Dir(f); uses.Match(text) {
				packages[dir] = packages[dir] || checks.Match(text)
			}
		}
	}
	if len(packages) < 10 {
		t.Errorf("only %d packages use tensors in tests: %v", len(packages), packages)
	}
	for dir, checked := range packages {
		if !checked {
			t.Errorf("%s: its tests use tensors, and no TestMain calls torch.CheckLeaks", dir)
		}
	}
}

// Two OpenMP runtimes in one process mean two thread teams that fight for the cores.
func TestOneOpenMP(t *testing.T) {
	TeamSize() // a parallel region has run
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		testenv.Missing(t, "%v", err)
	}
	found := map[string]bool{}
	for _, path := range regexp.MustCompile(`/\S*/lib(gomp|iomp|omp)[^/\s]*\.so\S*`).FindAllString(string(maps), -1) {
		found[path] = true
	}
	if len(found) != 1 {
		t.Errorf("OpenMP runtimes loaded: %v, want one", found)
	}
}
