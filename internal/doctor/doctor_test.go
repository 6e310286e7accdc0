package doctor

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
)

// tree writes files (path → content) under a new folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, content := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestProcessor(t *testing.T) {
	proc := tree(t, map[string]string{"cpuinfo": "processor\t: 0\nmodel name\t: Test CPU 9000\n"})
	for _, c := range []struct {
		name string
		cpu  CPU
		want string
	}{
		{"old", CPU{Cores: 2}, "note generic kernels"},
		{"AVX2", CPU{Cores: 2, AVX2: true, FMA: true}, "ok AVX2, FMA: fp32 is the fast type"},
		{"AVX-512", CPU{Cores: 2, AVX2: true, FMA: true, AVX512: true}, "ok AVX2, FMA, AVX-512: fp32 is the fast type"},
		{"bf16", CPU{Cores: 2, AVX2: true, FMA: true, AVX512: true, AVX512BF16: true}, "ok AVX-512 bf16: bf16 is the fast type"},
		{"AMX", CPU{Cores: 2, AVX2: true, FMA: true, AVX512: true, AMXBF16: true, AMXInt8: true}, "ok AMX bf16, AMX int8: bf16 is the fast type"},
		{"one core", CPU{Cores: 1, AVX2: true, FMA: true}, "note one core"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := processor(c.cpu, proc)
			want(t, f, c.want)
			want(t, f, fmt.Sprintf("ok Test CPU 9000, %d cores", c.cpu.Cores))
		})
	}
}

// want looks for a finding of the level (first word) whose detail contains the rest.
func want(t *testing.T, f Findings, levelAndText string) {
	t.Helper()
	level, text, _ := strings.Cut(levelAndText, " ")
	for _, x := range f {
		if x.Level.String() == level && strings.Contains(x.Detail, text) {
			return
		}
	}
	t.Errorf("no finding %q in\n%s", levelAndText, f)
}

func TestMemory(t *testing.T) {
	for _, c := range []struct{ meminfo, want string }{
		// 24 GiB = 25165824 kB, 12 GiB = 12582912 kB
		{"MemTotal:       25165824 kB\nMemAvailable:   12582912 kB\n", "ok 24.0 GiB in all, 12.0 GiB available"},
		// a "16 GB" machine shows 15.5 GiB = 16252928 kB
		{"MemTotal:       16252928 kB\nMemAvailable:   12582912 kB\n", "ok 15.5 GiB in all"},
		{"MemTotal:        8388608 kB\nMemAvailable:    4194304 kB\n", "note 8.0 GiB in all, 4.0 GiB available: enough for the nano model"},
		{"", "note cannot read"},
	} {
		want(t, memory(tree(t, map[string]string{"meminfo": c.meminfo})), c.want)
	}
}

func TestNoDriver(t *testing.T) {
	for _, c := range []struct {
		ret  nvml.Return
		want string
	}{
		{nvml.ERROR_LIBRARY_NOT_FOUND, "ok none (no NVIDIA driver)"},
		{nvml.ERROR_DRIVER_NOT_LOADED, "note the NVIDIA driver does not answer: driver not loaded"},
	} {
		lib := &mock.Interface{
			InitFunc:        func() nvml.Return { return c.ret },
			ErrorStringFunc: func(nvml.Return) string { return "driver not loaded" },
		}
		f := gpus(lib, t.TempDir())
		want(t, f, c.want)
		if len(f) != 1 || !f.Healthy() {
			t.Errorf("a machine without GPU must be one healthy line, got\n%s", f)
		}
	}
}

func TestBrokenDriverLibrary(t *testing.T) {
	lib := &mock.Interface{InitFunc: func() nvml.Return { panic("undefined symbol nvmlInit_v2") }}
	want(t, gpus(lib, t.TempDir()), "note the driver's NVML is not usable: undefined symbol nvmlInit_v2")
}

func TestEightA100(t *testing.T) {
	server := dgxa100.New()
	server.InitFunc = func() nvml.Return { return nvml.SUCCESS }
	server.ShutdownFunc = func() nvml.Return { return nvml.SUCCESS }
	f := gpus(server, t.TempDir())
	// the simulated machine has driver 550, too old for CUDA 13, and nobody has built the plugin
	want(t, f, "missing 8 found, driver 550.54.15: libtorch's CUDA 13 needs driver 580")
	want(t, f, "missing the CUDA plugin is not built")
	for i := range 8 {
		want(t, f, fmt.Sprintf("ok %d: ", i))
	}
	want(t, f, "ok 7: Mock NVIDIA A100-SXM4-40GB, 40.0 GiB")
	if f.Healthy() {
		t.Error("an old driver must not count as healthy")
	}

	server.SystemGetDriverVersionFunc = func() (string, nvml.Return) { return "580.65.06", nvml.SUCCESS }
	f = gpus(server, tree(t, map[string]string{"build/native/libseadnative_cuda.so": ""}))
	want(t, f, "ok 8 found, driver 580.65.06")
	if !f.Healthy() || len(f) != 9 {
		t.Errorf("want nine healthy lines, got\n%s", f)
	}
}

func TestLibraries(t *testing.T) {
	empty := tree(t, nil)
	f := libraries(empty, empty)
	for _, name := range []string{"libtorch", "libseadnative", "gloo headers", "tokenizer library"} {
		want(t, f, "missing "+name+": no ")
	}
	for _, x := range f {
		if x.Fix == "" {
			t.Errorf("%s: no command that brings it", x.Detail)
		}
	}
	clone := tree(t, map[string]string{
		"third_party/site/torch/lib/libtorch_cpu.so": "", "build/native/libseadnative.so": "",
		"third_party/gloo/include/gloo/context.h": "", "third_party/tokenizers/libtokenizers.a": "",
	})
	if f := libraries(clone, empty); !f.Healthy() || len(f) != 4 {
		t.Errorf("a set-up clone is not healthy:\n%s", f)
	}
	// an installed program: libraries are loaded, there is no clone around it
	proc := tree(t, map[string]string{"self/maps": maps("/opt/x/libtorch_cpu.so", "/opt/x/libtorch_cpu.so", "/opt/x/libseadnative.so")})
	f = libraries(empty, proc)
	want(t, f, "ok libtorch: loaded from /opt/x/libtorch_cpu.so")
	want(t, f, "note gloo headers")
	if !f.Healthy() {
		t.Errorf("a program that runs lacks nothing:\n%s", f)
	}
}

func TestModels(t *testing.T) {
	f := models(tree(t, nil))
	want(t, f, "note SmolLM2: no ")
	if f[0].Fix != "make smollm2" {
		t.Errorf("the command that brings it: %q", f[0].Fix)
	}
	want(t, models(tree(t, map[string]string{"third_party/models/SmolLM2-135M-Instruct/config.json": "{}"})), "ok SmolLM2: ")
}

// The program finds its clone from any folder, also when it is called by a link.
func TestCloneOf(t *testing.T) {
	clone := tree(t, map[string]string{"bin/seadtrain": "", "third_party/READY": ""})
	link := filepath.Join(t.TempDir(), "seadtrain")
	if err := os.Symlink(filepath.Join(clone, "bin/seadtrain"), link); err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]string{
		filepath.Join(clone, "bin/seadtrain"): clone, link: clone, filepath.Join(tree(t, map[string]string{"bin/seadtrain": ""}), "bin/seadtrain"): ".", "": ".",
	} {
		if got := cloneOf(program); got != want {
			t.Errorf("%s: %s, want %s", program, got, want)
		}
	}
}

// maps is a /proc/self/maps with these files mapped.
func maps(paths ...string) string {
	var b strings.Builder
	b.WriteString("00400000-00452000 rw-p 00000000 00:00 0 \n")
	for i, p := range paths {
		fmt.Fprintf(&b, "7f%02x00000000-7f%02x00452000 r-xp 00000000 08:02 173521 %s\n", i, i, p)
	}
	return b.String()
}

func TestOpenMP(t *testing.T) {
	for _, c := range []struct {
		paths []string
		want  string
	}{
		{nil, "note no OpenMP runtime"},
		{[]string{"/w/torch/lib/libgomp.so.1", "/w/torch/lib/libgomp.so.1"}, "ok one OpenMP runtime: /w/torch/lib/libgomp.so.1"},
		{[]string{"/w/torch/lib/libgomp.so.1", "/usr/lib/libgomp.so.1.0.0"}, "missing 2 OpenMP runtimes are loaded: /usr/lib/libgomp.so.1.0.0, /w/torch/lib/libgomp.so.1"},
		{[]string{"/w/libgomp-a34b3233.so.1", "/w/libiomp5.so"}, "missing 2 OpenMP runtimes"},
	} {
		want(t, openMP(tree(t, map[string]string{"self/maps": maps(c.paths...)})), c.want)
	}
}

// The report of this very machine must be complete and printable, whatever the machine is.
func TestReportHere(t *testing.T) {
	f := Report(Options{Root: "../.."})
	seen := map[string]bool{}
	for _, x := range f {
		seen[x.Area] = true
	}
	for _, area := range []string{areaCPU, areaMemory, areaDisk, areaGPU, areaLibraries, areaModels, areaThreads} {
		if !seen[area] {
			t.Errorf("nothing about %s in\n%s", area, f)
		}
	}
	text, err := json.Marshal(f)
	if err != nil || !strings.Contains(string(text), `"level":"ok"`) {
		t.Errorf("JSON %s, %v", text, err)
	}
	if !strings.Contains(f.String(), areaCPU) {
		t.Errorf("report:\n%s", f)
	}
}

func TestAvailableMemory(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"machine":     {map[string]string{"proc/meminfo": "MemTotal: 8000 kB\nMemAvailable:   4000 kB\n"}, 4000 << 10},
		"no limit":    {map[string]string{"proc/meminfo": "MemAvailable: 4000 kB\n", "proc/self/cgroup": "0::/job/step\n", "cg/job/step/memory.max": "max\n"}, 4000 << 10},
		"a job's":     {map[string]string{"proc/meminfo": "MemAvailable: 4000 kB\n", "proc/self/cgroup": "0::/job/step\n", "cg/job/memory.max": "3000\n", "cg/job/memory.current": "1000\n"}, 2000},
		"a container": {map[string]string{"proc/meminfo": "MemAvailable: 4000 kB\n", "proc/self/cgroup": "0::/\n", "cg/memory.max": "5000\n", "cg/memory.current": "6000\n"}, 1},
		"not known":   {nil, 0},
	} {
		dir := t.TempDir()
		for f, text := range c.files {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, f)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, f), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := availableMemory(filepath.Join(dir, "proc"), filepath.Join(dir, "cg")); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
