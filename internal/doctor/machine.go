package doctor

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"
)

// What the README asks for; less works for the nano model only.
const (
	wantMemory = 16 << 30 // bytes
	wantDisk   = 20 << 30 // bytes, before anything is fetched
	buildDisk  = 4 << 30  // bytes, below which a build or a checkpoint may fail
)

// CPU is what kernels and dtype choice depend on.
type CPU struct {
	Cores      int // that this process may use
	AVX2, FMA  bool
	AVX512     bool // F, BW, DQ and VL, as the AVX-512 kernels need
	AVX512BF16 bool
	AMXBF16    bool
	AMXInt8    bool
}

// ThisCPU asks the processor that this runs on.
func ThisCPU() *CPU {
	x := cpu.X86
	return &CPU{
		Cores: runtime.NumCPU(), AVX2: x.HasAVX2, FMA: x.HasFMA,
		AVX512:     x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL,
		AVX512BF16: x.HasAVX512BF16, AMXBF16: x.HasAMXBF16 && x.HasAMXTile, AMXInt8: x.HasAMXInt8 && x.HasAMXTile,
	}
}

func processor(c CPU, proc string) Findings {
	name := cpuName(proc)
	detail := fmt.Sprintf("%s, %d cores usable", name, c.Cores)
	var sets []string
	for _, s := range []struct {
		has  bool
		name string
	}{{c.AVX2, "AVX2"}, {c.FMA, "FMA"}, {c.AVX512, "AVX-512"}, {c.AVX512BF16, "AVX-512 bf16"}, {c.AMXBF16, "AMX bf16"}, {c.AMXInt8, "AMX int8"}} {
		if s.has {
			sets = append(sets, s.name)
		}
	}
	has := "no vector extensions of use"
	if len(sets) > 0 {
		has = strings.Join(sets, ", ")
	}
	f := Findings{{Area: areaCPU, Level: OK, Detail: detail}}
	switch {
	case !c.AVX2 || !c.FMA:
		f = append(f, Finding{areaCPU, Note, has + ": generic kernels only, several times slower than with AVX2", ""})
	case c.AMXBF16 || c.AVX512BF16:
		f = append(f, Finding{areaCPU, OK, has + ": bf16 is the fast type for matrix products", ""})
	default:
		f = append(f, Finding{areaCPU, OK, has + ": fp32 is the fast type here, bf16 would be slower", ""})
	}
	if c.Cores < 2 {
		f = append(f, Finding{areaCPU, Note, "one core: the times in the README are for two", ""})
	}
	return f
}

// CPUName is the processor's name for itself.
func CPUName() string { return cpuName("/proc") }

func cpuName(proc string) string {
	for _, line := range lines(filepath.Join(proc, "cpuinfo")) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH + " processor"
}

// AvailableMemory is what this process may still take, in bytes: of the machine, and of the control groups it is in, as of a
// batch job or container. 0: not known.
func AvailableMemory() int64 { return availableMemory("/proc", "/sys/fs/cgroup") }

func availableMemory(proc, cgroups string) int64 {
	free := meminfo(proc)["MemAvailable"]
	for _, line := range lines(filepath.Join(proc, "self/cgroup")) {
		path, ok := strings.CutPrefix(line, "0::/")
		for ; ok; path = filepath.Dir(path) { // a group is bounded by those above it
			most, used := number(filepath.Join(cgroups, path, "memory.max")), number(filepath.Join(cgroups, path, "memory.current"))
			if most > 0 {
				free = min(free, max(1, most-used))
			}
			if path == "" || path == "." {
				break
			}
		}
	}
	return free
}

// number reads a file that holds one; 0: it does not.
func number(file string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// meminfo in bytes.
func meminfo(proc string) map[string]int64 {
	values := map[string]int64{}
	for _, line := range lines(filepath.Join(proc, "meminfo")) {
		if key, rest, ok := strings.Cut(line, ":"); ok {
			if kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64); err == nil {
				values[key] = kib << 10
			}
		}
	}
	return values
}

func memory(proc string) Findings {
	values := meminfo(proc)
	total, free := values["MemTotal"], values["MemAvailable"]
	if total == 0 {
		return Findings{{areaMemory, Note, "cannot read " + filepath.Join(proc, "meminfo"), ""}}
	}
	detail := fmt.Sprintf("%s in all, %s available", gib(total), gib(free))
	// A "16 GB" machine shows a little less: the kernel keeps some.
	if total < wantMemory*9/10 {
		return Findings{{areaMemory, Note, detail + ": enough for the nano model; SmolLM2 and the tests want 16 GB", ""}}
	}
	return Findings{{areaMemory, OK, detail, ""}}
}

func disk(root string) Findings {
	var s unix.Statfs_t
	if err := unix.Statfs(root, &s); err != nil {
		return Findings{{areaDisk, Note, fmt.Sprintf("cannot measure the disk of %s: %v", root, err), ""}}
	}
	free := int64(s.Bavail) * s.Bsize
	detail := gib(free) + " free"
	switch {
	case free < buildDisk:
		return Findings{{areaDisk, Missing, detail + ": builds and checkpoints may fail", "free at least 4 GiB, for example: make clean, and remove old runs/"}}
	case free < wantDisk:
		return Findings{{areaDisk, Note, detail + ": make interop wants about 10 GiB, everything together 20", ""}}
	}
	return Findings{{areaDisk, OK, detail, ""}}
}

func gib(n int64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }

// lines reads a small file of proc; an unreadable one has none.
func lines(path string) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	var out []string
	for s := bufio.NewScanner(f); s.Scan(); {
		out = append(out, s.Text())
	}
	return out
}
