package version

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestGet(t *testing.T) {
	build := &debug.BuildInfo{
		Deps: []*debug.Module{
			{Path: "github.com/daulet/tokenizers", Version: "v1.27.0"},
			{Path: "gorgonia.org/tensor", Version: "v0.9.24"},
			{Path: "github.com/NVIDIA/go-nvml", Version: "v0.1.0", Replace: &debug.Module{Version: "v0.13.4-1"}},
		},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"},
			{Key: "vcs.modified", Value: "true"},
		},
	}
	for _, c := range []struct {
		name, commit string
		build        *debug.BuildInfo
		want         string
	}{
		{"set by the Makefile", "feedc0de", build, "feedc0de"},
		{"recorded by go build", "", build, "0123456789ab-dirty"},
		{"outside a clone", "", &debug.BuildInfo{}, "unknown"},
		{"no build info at all", "", nil, "unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := get("2.11.0", c.commit, c.build).Commit; got != c.want {
				t.Errorf("commit %q, want %q", got, c.want)
			}
		})
	}
	info := get("2.11.0", "", build)
	if info.Tokenizers != "v1.27.0" || info.Tensor != "v0.9.24" || info.NVML != "v0.13.4-1" {
		t.Errorf("module versions %+v", info)
	}
	text := info.String()
	for _, want := range []string{"0123456789ab-dirty", "libtorch   2.11.0", "tokenizers v1.27.0", "go-nvml    v0.13.4-1", "go1."} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}
