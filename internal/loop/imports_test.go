package loop

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Stages never import each other, dialogue imports the standard library only, and only this package sees every stage.
func TestImports(t *testing.T) {
	stages := []string{"curriculum", "rollout", "train", "eval"}
	seen := map[string][]string{} // package -> what it imports of this module, tests left out
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := e.Name(); e.IsDir() && (name == "build" || name == "third_party" || name == "testdata" || name == "native" || (strings.HasPrefix(name, ".") && len(name) > 2)) {
			return fs.SkipDir
		}
		if e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg, _ := filepath.Rel("../..", filepath.Dir(path))
		for _, i := range f.Imports {
			target, _ := strconv.Unquote(i.Path.Value)
			if own, ok := strings.CutPrefix(target, "seadtrain/"); ok {
				seen[pkg] = append(seen[pkg], own)
			} else if pkg == "dialogue" && strings.Contains(target, ".") {
				t.Errorf("%s imports %s: dialogue is a leaf", path, target)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(seen["dialogue"]); n > 0 {
		t.Errorf("dialogue imports %q", seen["dialogue"])
	}
	for pkg, imports := range seen {
		var of []string
		for _, s := range stages {
			if slices.Contains(imports, s) {
				of = append(of, s)
			}
		}
		if slices.Contains(stages, pkg) && len(of) > 0 {
			t.Errorf("stage %s imports stages %q", pkg, of)
		}
		if pkg != "internal/loop" && len(of) == len(stages) {
			t.Errorf("%s imports every stage; only internal/loop may", pkg)
		}
		if pkg == "internal/loop" && len(of) != len(stages) {
			t.Errorf("internal/loop imports %q: where are the others wired?", of)
		}
	}
}
