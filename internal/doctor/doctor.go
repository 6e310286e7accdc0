// Package doctor looks at the machine it runs on: what can be used for training, and what is missing, with the
// command that brings it. It only reads; nothing is started, changed or allocated.
package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Level says what a finding means for the user.
type Level int

const (
	OK      Level = iota // there and usable
	Note                 // works, but worth knowing (slower, or a feature is absent)
	Missing              // the program, or a part that was asked for, cannot work
)

func (l Level) String() string { return [...]string{"ok", "note", "missing"}[l] }

// MarshalText gives the level's name in JSON.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Finding is one line of the report.
type Finding struct {
	Area   string `json:"area"`   // processor, memory, disk, gpu, libraries, models, threads
	Level  Level  `json:"level"`  //
	Detail string `json:"detail"` // what was found
	Fix    string `json:"fix"`    // the command that brings what is missing; empty when nothing is
}

// Options are the places to look at; the zero value looks at this machine and this program's clone.
type Options struct {
	Root string         // the clone, for third_party/ and build/; empty: the one the program lies in, else the current folder
	Proc string         // where proc is mounted; empty means /proc
	NVML nvml.Interface // empty means the driver's own library, loaded on demand
	CPU  *CPU           // empty means the processor this runs on
}

// Findings is a report in the order of its areas.
type Findings []Finding

// Report looks at everything. It never fails: what cannot be read is a finding.
func Report(o Options) Findings {
	if o.Root == "" {
		o.Root = Clone()
	}
	if o.Proc == "" {
		o.Proc = "/proc"
	}
	if o.NVML == nil {
		o.NVML = nvml.New()
	}
	if o.CPU == nil {
		o.CPU = ThisCPU()
	}
	var f Findings
	f = append(f, processor(*o.CPU, o.Proc)...)
	f = append(f, memory(o.Proc)...)
	f = append(f, disk(o.Root)...)
	f = append(f, gpus(o.NVML, o.Root)...)
	f = append(f, libraries(o.Root, o.Proc)...)
	f = append(f, models(o.Root)...)
	return append(f, openMP(o.Proc)...)
}

// Clone is the clone that this program lies in, else the current folder.
func Clone() string {
	self, _ := os.Executable() // without it the current folder does
	return cloneOf(self)
}

// cloneOf is the clone whose bin/ holds the program; the current folder if it was built or put elsewhere.
func cloneOf(program string) string {
	if real, err := filepath.EvalSymlinks(program); err == nil {
		root := filepath.Dir(filepath.Dir(real))
		if _, err := os.Stat(filepath.Join(root, "third_party")); err == nil {
			return root
		}
	}
	return "."
}

// Healthy reports whether nothing is missing.
func (f Findings) Healthy() bool {
	for _, x := range f {
		if x.Level == Missing {
			return false
		}
	}
	return true
}

// String is the report for people: one line per finding, and what to type under what is missing.
func (f Findings) String() string {
	var b strings.Builder
	area := ""
	for _, x := range f {
		name := x.Area
		if name == area {
			name = ""
		}
		area = x.Area
		fmt.Fprintf(&b, "%-11s%-9s%s\n", name, x.Level, x.Detail)
		if x.Fix != "" {
			fmt.Fprintf(&b, "%-20s→ %s\n", "", x.Fix)
		}
	}
	return b.String()
}

// Values of [Finding.Area], in the order of the report.
const (
	areaCPU       = "processor"
	areaMemory    = "memory"
	areaDisk      = "disk"
	areaGPU       = "gpu"
	areaLibraries = "libraries"
	areaModels    = "models"
	areaThreads   = "threads"
)
