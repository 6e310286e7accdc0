package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// libraries looks for what the build links and the program loads. What this very process has loaded counts first
// (an installed binary has no clone around it); then the clone's folders.
func libraries(root, proc string) Findings {
	loaded := loadedLibraries(proc)
	var f Findings
	for _, l := range []struct {
		name, soname string // soname is empty for what is linked statically or only compiled against
		path         string // in the clone
		fix          string
	}{
		{"libtorch", "libtorch_cpu.so", "third_party/site/torch/lib/libtorch_cpu.so", "make setup (or LIBTORCH=folder make …)"},
		{"libseadnative", "libseadnative.so", "build/native/libseadnative.so", "make native"},
		{"gloo headers", "", "third_party/gloo/include/gloo/context.h", "make setup (or GLOO_INCLUDE=folder make …)"},
		{"tokenizer library", "", "third_party/tokenizers/libtokenizers.a", "make setup"},
	} {
		if paths := loaded[l.soname]; l.soname != "" && len(paths) > 0 {
			f = append(f, Finding{areaLibraries, OK, fmt.Sprintf("%s: loaded from %s", l.name, strings.Join(paths, " and ")), ""})
			continue
		}
		path := filepath.Join(root, l.path)
		if _, err := os.Stat(path); err == nil {
			f = append(f, Finding{areaLibraries, OK, fmt.Sprintf("%s: %s", l.name, path), ""})
			continue
		}
		level := Missing
		// A program that runs has its libraries; only somebody who builds needs what is compiled against.
		if l.soname == "" && len(loaded["libseadnative.so"]) > 0 {
			level = Note
		}
		f = append(f, Finding{areaLibraries, level, fmt.Sprintf("%s: no %s (needed to build)", l.name, path), l.fix})
	}
	return f
}

// models looks for what configs/smollm2.toml wants; the nano model is in the binary.
func models(root string) Findings {
	path := filepath.Join(root, "third_party/models/SmolLM2-135M-Instruct")
	if _, err := os.Stat(filepath.Join(path, "config.json")); err != nil {
		return Findings{{areaModels, Note, "SmolLM2: no " + path + " (for configs/smollm2.toml)", "make smollm2"}}
	}
	return Findings{{areaModels, OK, "SmolLM2: " + path, ""}}
}

// openMP counts the OpenMP runtimes in this process. Two of them (the system's beside libtorch's) give two thread
// pools, and twice as many spinning threads as there are cores.
func openMP(proc string) Findings {
	var paths []string
	for name, where := range loadedLibraries(proc) {
		if strings.HasPrefix(name, "libgomp") || strings.HasPrefix(name, "libiomp") || strings.HasPrefix(name, "libomp") {
			paths = append(paths, where...)
		}
	}
	sort.Strings(paths)
	policy := os.Getenv("OMP_WAIT_POLICY")
	if policy == "" {
		policy = "not set (threads spin while they wait; passive is better beside other work)"
	}
	wait := Finding{areaThreads, OK, "OMP_WAIT_POLICY " + policy, ""}
	switch len(paths) {
	case 0:
		return Findings{{areaThreads, Note, "no OpenMP runtime is loaded in this process", ""}, wait}
	case 1:
		return Findings{{areaThreads, OK, "one OpenMP runtime: " + paths[0], ""}, wait}
	}
	return Findings{{areaThreads, Missing, fmt.Sprintf("%d OpenMP runtimes are loaded: %s", len(paths), strings.Join(paths, ", ")),
		"unset LD_PRELOAD and LD_LIBRARY_PATH, then make native"}, wait}
}

// loadedLibraries maps a file's name to the paths under which this process has mapped it.
func loadedLibraries(proc string) map[string][]string {
	out := map[string][]string{}
	seen := map[string]bool{}
	for _, line := range lines(filepath.Join(proc, "self/maps")) {
		at := strings.IndexByte(line, '/')
		if at < 0 || seen[line[at:]] {
			continue
		}
		path := line[at:]
		seen[path] = true
		if name := filepath.Base(path); strings.Contains(name, ".so") {
			out[name] = append(out[name], path)
		}
	}
	return out
}
