// Package version says which program this is: commit, Go, and the libraries it is built on.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// commit is set by the Makefile (-ldflags -X); a plain `go build` inside a clone records the same in the build info.
var commit string

// Info is what `seadtrain version` prints. Libtorch stays with the caller, because only package torch can ask it.
type Info struct {
	Commit     string `json:"commit"`     // short hash, "-dirty" when files were changed; "unknown" outside a clone
	Go         string `json:"go"`         // the compiler's version, "go1.24.1"
	Platform   string `json:"platform"`   // "linux/amd64"
	Libtorch   string `json:"libtorch"`   // as the loaded library reports it, empty if not asked
	Tokenizers string `json:"tokenizers"` // the Go module's version; the Rust library is built from its source
	Tensor     string `json:"tensor"`     // gorgonia.org/tensor
	NVML       string `json:"nvml"`       // github.com/NVIDIA/go-nvml
}

// Get collects the versions; libtorch is torch.Version().
func Get(libtorch string) Info {
	build, _ := debug.ReadBuildInfo()
	return get(libtorch, commit, build)
}

func get(libtorch, commit string, build *debug.BuildInfo) Info {
	info := Info{Commit: commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Libtorch: libtorch}
	if build == nil {
		build = &debug.BuildInfo{}
	}
	if info.Commit == "" {
		info.Commit = buildCommit(build.Settings)
	}
	modules := map[string]*string{
		"github.com/daulet/tokenizers": &info.Tokenizers,
		"gorgonia.org/tensor":          &info.Tensor,
		"github.com/NVIDIA/go-nvml":    &info.NVML,
	}
	for _, dep := range build.Deps {
		if field, ok := modules[dep.Path]; ok {
			if dep.Replace != nil {
				dep = dep.Replace
			}
			*field = dep.Version
		}
	}
	return info
}

// buildCommit reads what `go build` itself recorded about the clone.
func buildCommit(settings []debug.BuildSetting) string {
	revision, dirty := "unknown", ""
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			revision = s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	return revision + dirty
}

// String is one line per fact, for people.
func (i Info) String() string {
	var b strings.Builder
	for _, row := range [][2]string{
		{"seadtrain", i.Commit}, {"libtorch", i.Libtorch}, {"tokenizers", i.Tokenizers},
		{"tensor", i.Tensor}, {"go-nvml", i.NVML}, {"go", i.Go}, {"platform", i.Platform},
	} {
		if row[1] != "" {
			fmt.Fprintf(&b, "%-10s %s\n", row[0], row[1])
		}
	}
	return b.String()
}
