package torch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every function of the C header is used by this package and tested in native/test.
func TestHeaderIsUsedAndTested(t *testing.T) {
	read := func(pattern string) string {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: no files, %v", pattern, err)
		}
		var all strings.Builder
		for _, p := range paths {
			b, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(b)
		}
		return all.String()
	}
	header, binding, tests := read("../native/seadnative.h"), read("*.go"), read("../native/test/*")
	names := regexp.MustCompile(`\b(sn_\w+)\(`).FindAllStringSubmatch(header, -1)
	if len(names) < 70 {
		t.Errorf("only %d functions found in the header", len(names))
	}
	for _, n := range names {
		if !strings.Contains(binding, "C."+n[1]+"(") {
			t.Errorf("%s is used nowhere in torch/", n[1])
		}
		if !regexp.MustCompile(n[1] + `\b`).MatchString(tests) {
			t.Errorf("%s is not tested in native/test", n[1])
		}
	}
}
