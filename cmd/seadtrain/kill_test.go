package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"seadtrain/internal/rundir"
	"seadtrain/internal/testenv"
	"seadtrain/internal/testmodel"
)

// moment is a point of a run: a phase as the debug log announces it, and how long after that.
type moment struct {
	phase string
	after time.Duration
}

// phaseMark is in the log before the name of a phase that begins.
const phaseMark = "msg=phase phase="

// watch runs the program and tells every phase line as it comes; a stop ends it by a signal.
type watch struct {
	cmd    *exec.Cmd
	phases chan string
	log    *bytes.Buffer
}

func start(t *testing.T, args ...string) *watch {
	t.Helper()
	w := &watch{cmd: program(t, append([]string{"--log-level", "debug"}, args...)...), phases: make(chan string, 1000), log: &bytes.Buffer{}}
	out, err := w.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.phases)
		scan := bufio.NewScanner(io.TeeReader(out, w.log))
		for scan.Scan() {
			if _, phase, ok := strings.Cut(scan.Text(), phaseMark); ok {
				w.phases <- phase
			}
		}
	}()
	return w
}

// end waits for the program and gives its exit code; -1: killed.
func (w *watch) end() int {
	for range w.phases {
	}
	w.cmd.Wait()
	return w.cmd.ProcessState.ExitCode()
}

// at waits for a moment; false if the program ended before.
func (w *watch) at(m moment) bool {
	for phase := range w.phases {
		if phase == m.phase {
			time.Sleep(m.after)
			return true
		}
	}
	return false
}

// contents are the files of a run that must come out the same however often it was killed.
func contents(t *testing.T, run string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"episodes/*", "profiles/*", "eval/*", "checkpoints/step-*/manifest.json", "config.toml"} {
		paths, _ := filepath.Glob(filepath.Join(run, pattern))
		for _, path := range paths {
			name, _ := filepath.Rel(run, path)
			out[name] = read(t, path)
		}
	}
	return out
}

// last is the phase announced last.
func (w *watch) last() string {
	text := w.log.String()
	phase, _, _ := strings.Cut(text[strings.LastIndex(text, phaseMark)+len(phaseMark):], "\n")
	return phase
}

// kind is a phase without its step.
func kind(phase string) string {
	k, _, _ := strings.Cut(phase, " ")
	return k
}

// The program is killed at seeded moments that cover every phase of a run, and resumes to the same weights, optimizer
// state, curriculum and dialogues every time: the last checkpoint's manifest, which holds the SHA-256 of each of its files,
// is that of the run nobody disturbed.
func TestKillNine(t *testing.T) {
	base := t.TempDir()
	cfg := write(t, base, "a.toml", testmodel.RunConfig(testmodel.Tiny(t, 1)))
	whole := filepath.Join(base, "whole")
	began := time.Now()
	w := start(t, "run", cfg, "--run-dir", whole)
	type seen struct {
		phase string
		at    time.Duration
	}
	var all []seen
	for phase := range w.phases {
		all = append(all, seen{phase, time.Since(began)})
	}
	if code := w.end(); code != 0 {
		t.Fatalf("undisturbed run: exit %d\n%s", code, w.log)
	}
	length := time.Since(began)
	state := w.cmd.ProcessState
	if cpu := state.UserTime() + state.SystemTime(); cpu > 15*time.Second { // it has one thread, so that wall time follows
		t.Errorf("the undisturbed run took %v of processor time (%v in all), want at most 15 s", cpu, length)
	}
	want := contents(t, whole)

	// Every kind of phase twice, first near its beginning, then any: each moment lies inside the phase as long as it lasted
	// when undisturbed.
	rng := rand.New(rand.NewPCG(20, 9))
	byKind := map[string][]int{}
	for i, s := range all {
		byKind[kind(s.phase)] = append(byKind[kind(s.phase)], i)
	}
	kinds := []string{"evaluate", "sample", "rollout", "train", "analyse", "checkpoint"}
	moments := testenv.Nightly(20, 200)
	alive := 0                                        // kills that found a living process
	aimed, died := map[string]int{}, map[string]int{} // of these, by the kind of phase they were meant for, and fell into
	for k := range moments {
		i := rng.IntN(len(all))
		if k < 2*len(kinds) {
			of := byKind[kinds[k%len(kinds)]]
			if len(of) == 0 {
				t.Fatalf("no phase %s in\n%s", kinds[k%len(kinds)], w.log)
			}
			i = of[rng.IntN(len(of))]
		}
		end := length
		if i+1 < len(all) {
			end = all[i+1].at
		}
		share := rng.Float64()
		if k < len(kinds) {
			share /= 4
		}
		m := moment{all[i].phase, time.Duration(share * float64(end-all[i].at))}
		t.Run(fmt.Sprintf("%d %s", k, m.phase), func(t *testing.T) {
			run := filepath.Join(base, fmt.Sprint("run", k))
			w := start(t, "run", cfg, "--run-dir", run)
			if !w.at(m) {
				t.Errorf("phase %s was never reached\n%s", m.phase, w.log)
			}
			_ = w.cmd.Process.Kill() // one that has ended cannot be killed: counted below
			if w.end() == -1 {
				alive++
				aimed[kind(m.phase)]++
				died[kind(w.last())]++
				t.Logf("killed %v into %s, in %s", m.after, m.phase, w.last())
			}
			if out, err, code := call(t, "", "run", cfg, "--run-dir", run); code != 0 || !strings.Contains(out, "Held-out completion rate") {
				t.Fatalf("resumed: exit %d\n%s\n%s", code, out, err)
			}
			got := contents(t, run)
			for name := range want {
				if got[name] != want[name] {
					t.Errorf("killed %v into %s: %s differs", m.after, m.phase, name)
				}
			}
			if n := strings.Count(read(t, filepath.Join(run, "metrics.jsonl")), "\n"); n != 4 {
				t.Errorf("metrics of %d steps, want 4", n)
			}
			if left, _ := filepath.Glob(filepath.Join(run, "*", ".*")); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
			os.RemoveAll(run)
		})
	}
	t.Logf("%d of %d kills found a living process, by phase: %v", alive, moments, died)
	if alive < moments*3/4 {
		t.Errorf("%d of %d kills found a living process, want three quarters", alive, moments)
	}
	for _, k := range kinds {
		if fell := died[k]; aimed[k] == 0 || fell == 0 && k != "sample" { // which takes .1 ms: the signal comes at its end
			t.Errorf("phase %s: %d kills were meant for it, %d fell into it", k, aimed[k], fell)
		}
	}
}

// Ctrl-C and SIGTERM write a checkpoint of the last complete step, tell by the exit code who stopped the run, and the run
// goes on to the same end.
func TestStopBySignal(t *testing.T) {
	base := t.TempDir()
	cfg := write(t, base, "a.toml", testmodel.RunConfig(testmodel.Tiny(t, 1)))
	whole := filepath.Join(base, "whole")
	must(t, "run", cfg, "--run-dir", whole)
	want := contents(t, whole)
	for _, c := range []struct {
		sig  syscall.Signal
		at   string
		code int
		step string // of the checkpoint
	}{
		{syscall.SIGINT, "rollout step=2", 130, "step-1"},
		{syscall.SIGTERM, "train step=3", 143, "step-3"}, // the update is finished first
		{syscall.SIGINT, "evaluate step=4 user=rules", 130, "step-4"},
	} {
		run := filepath.Join(base, strings.ReplaceAll(c.at, " ", "-"))
		w := start(t, "run", cfg, "--run-dir", run)
		if !w.at(moment{phase: c.at}) {
			t.Fatalf("no %s:\n%s", c.at, w.log)
		}
		if err := w.cmd.Process.Signal(c.sig); err != nil {
			t.Fatal(err)
		}
		if code := w.end(); code != c.code || !strings.Contains(w.log.String(), "seadtrain: stopped by ") {
			t.Errorf("%v at %s: exit %d\n%s", c.sig, c.at, code, w.log)
		}
		if _, err := os.Stat(filepath.Join(run, "checkpoints", c.step, "manifest.json")); err != nil {
			t.Errorf("%v at %s: %v\n%s", c.sig, c.at, err, w.log)
		}
		again := "seadtrain: to go on: " + os.Args[0] + " --log-level debug run " + cfg + " --run-dir " + run + "\n"
		if !strings.Contains(w.log.String(), again) {
			t.Errorf("no line %q in\n%s", again, w.log)
		}
		out := must(t, "run", cfg, "--run-dir", run)
		for _, want := range []string{"What to try next\n", os.Args[0] + " analyze " + run + "/episodes/step-4.jsonl ",
			os.Args[0] + " eval " + run + "/config.toml --model " + run + "/checkpoints/step-4 "} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
		got := contents(t, run)
		for name := range want {
			if got[name] != want[name] {
				t.Errorf("%v at %s: %s differs after resuming", c.sig, c.at, name)
			}
		}
	}
}

// A run that made its directory says how to go on in it, in words that a shell takes.
func TestGoOn(t *testing.T) {
	dir := t.TempDir()
	cfg := write(t, dir, "a b.toml", testmodel.RunConfig(testmodel.Tiny(t, 1)))
	_, text, code := call(t, "", "run", cfg, "--runs", dir, "--max-steps", "1", "--set", "eval.profiles=0")
	made, _ := filepath.Glob(filepath.Join(dir, "tiny-*"))
	if len(made) != 1 {
		t.Fatalf("exit %d, run directories %q\n%s", code, made, text)
	}
	want := "seadtrain: to go on: " + os.Args[0] + " run '" + cfg + "' --runs " + dir + " --max-steps 1 --set eval.profiles=0 --run-dir " + made[0] + "\n"
	if code != 0 || !strings.Contains(text, want) {
		t.Errorf("exit %d, no line %q in\n%s", code, want, text)
	}
	if got := quote("it's"); got != `'it'\''s'` {
		t.Error(got)
	}
}

// A run in a directory that is in use is refused and told by whom.
func TestBusyDirectory(t *testing.T) {
	dir := t.TempDir()
	cfg := write(t, dir, "a.toml", testmodel.RunConfig(testmodel.Tiny(t, 1)))
	held, err := rundir.Open(filepath.Join(dir, "busy"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	_, text, code := call(t, "", "run", cfg, "--run-dir", held.Path)
	if want := fmt.Sprintf("is in use by process %d on host", os.Getpid()); code != 1 || !strings.Contains(text, want) {
		t.Errorf("in use: exit %d, %s; want %q", code, text, want)
	}
}
