package rundir

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("RUNDIR_TEST_HOLD"); path != "" { // another process, which holds the directory until it is killed
		if _, err := Open(path); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("held")
		select {}
	}
	os.Exit(m.Run())
}

func mustOpen(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func fill(text string) func(string) error {
	return func(dir string) error {
		return errors.Join(
			os.WriteFile(filepath.Join(dir, "model.safetensors"), []byte(text), 0o644),
			os.WriteFile(filepath.Join(dir, "trainer", "state.json"), []byte("{}"), 0o644))
	}
}

func TestNewCountsUp(t *testing.T) {
	base := filepath.Join(t.TempDir(), "runs")
	day := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	for n := 1; n <= 3; n++ {
		d, err := New(base, "nano", day)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Begin(&settings{}); err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join(base, fmt.Sprintf("nano-2026-02-03-%d", n)); d.Path != want {
			t.Errorf("run %d is in %s, want %s", n, d.Path, want)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A start that fails leaves nothing: what Open made goes when no run has begun in it, and only that.
func TestFailedStartLeavesNothing(t *testing.T) {
	base := t.TempDir()
	left := func() string {
		var names []string
		filepath.WalkDir(base, func(path string, _ os.DirEntry, err error) error {
			if name, _ := filepath.Rel(base, path); name != "." {
				names = append(names, name)
			}
			return err
		})
		return strings.Join(names, " ")
	}
	d, err := New(filepath.Join(base, "runs"), "a", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil || left() != "" {
		t.Errorf("a new one: left are %q, %v", left(), err)
	}
	mustOpen(t, filepath.Join(base, "x", "y")).Close()
	if left() != "" {
		t.Errorf("a named one: left are %q", left())
	}
	mine := filepath.Join(base, "mine")
	if err := os.Mkdir(mine, 0o755); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, mine).Close()
	if left() != "mine mine/lock" {
		t.Errorf("one that was there: left are %q", left())
	}
	d = mustOpen(t, filepath.Join(base, "begun"))
	if err := errors.Join(d.Begin(&settings{}, "eval"), d.Close()); err != nil || left() != "begun begun/config.toml begun/eval begun/lock mine mine/lock" {
		t.Errorf("one with a run: left are %q, %v", left(), err)
	}
}

// A second process is refused and told who holds the directory; after a kill the lock is free at once.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	hold := exec.Command(os.Args[0])
	hold.Env = append(os.Environ(), "RUNDIR_TEST_HOLD="+dir)
	out, err := hold.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := hold.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 5)
	if _, err := out.Read(line); err != nil || string(line) != "held\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	_, err = Open(dir)
	var inUse *InUseError
	host, _ := os.Hostname()
	if want := fmt.Sprintf("process %d on host %s", hold.Process.Pid, host); !errors.As(err, &inUse) || !strings.Contains(err.Error(), want) {
		t.Errorf("opened twice: %v, want it to name %s", err, want)
	}
	if err := hold.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	hold.Wait()
	d := mustOpen(t, dir)
	if _, err := Open(dir); !errors.As(err, &inUse) { // the same process is no exception
		t.Errorf("opened twice in one process: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "lock")); err != nil || len(text) != 0 {
		t.Errorf("a lock that was given back holds %q, %v", text, err)
	}
}

// A holder on another machine is believed while its heartbeat is young.
func TestLockOfAnotherHost(t *testing.T) {
	for _, c := range []struct {
		age  time.Duration
		free bool
	}{{time.Second, false}, {staleAge - 10*time.Second, false}, {staleAge + 10*time.Second, true}} {
		dir := t.TempDir()
		lock := filepath.Join(dir, "lock")
		put(t, lock, `{"pid":12,"host":"far-away","since":"2026-01-02T03:04:05Z"}`)
		then := time.Now().Add(-c.age)
		if err := os.Chtimes(lock, then, then); err != nil {
			t.Fatal(err)
		}
		d, err := Open(dir)
		if c.free != (err == nil) {
			t.Errorf("silent for %v: %v", c.age, err)
		}
		if err != nil && !strings.Contains(err.Error(), "process 12 on host far-away since 2026-01-02 03:04:05") {
			t.Errorf("the holder is not named: %v", err)
		}
		if d != nil {
			d.Close()
		}
	}
}

func TestCheckpoints(t *testing.T) {
	d := mustOpen(t, t.TempDir())
	for _, step := range []int{2, 9, 10} {
		if _, err := d.WriteCheckpoint(step, fill(fmt.Sprint("weights of ", step))); err != nil {
			t.Fatal(err)
		}
	}
	at := func(want int, why string, brokenWant ...string) {
		t.Helper()
		c, broken, err := d.Latest()
		if err != nil || c == nil || c.Step != want {
			t.Fatalf("%s: latest is %+v, %v; want step %d", why, c, err, want)
		}
		if len(broken) != len(brokenWant) {
			t.Fatalf("%s: broken %v, want %q", why, broken, brokenWant)
		}
		for i, b := range broken {
			if !strings.Contains(b.Err.Error(), brokenWant[i]) {
				t.Errorf("%s: %v, want %q", why, b.Err, brokenWant[i])
			}
		}
	}
	at(10, "numbers, not names, decide")
	model := d.File("checkpoints", "step-10", "model.safetensors")
	put(t, model, "weights of 11")
	at(9, "a changed byte", "model.safetensors: its SHA-256 is not the manifest's")
	put(t, model, "weights")
	at(9, "a shorter file", "model.safetensors has 7 bytes, the manifest says 13")
	os.Remove(d.File("checkpoints", "step-9", "manifest.json"))
	at(2, "no manifest", "model.safetensors has 7", "manifest.json: no such file")
	if _, err := d.WriteCheckpoint(10, fill("again")); err != nil {
		t.Fatal(err)
	}
	at(10, "a broken one is replaced")
	if err := d.Prune(1); err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(d.File("checkpoints", "*"))
	if hidden, _ := filepath.Glob(d.File("checkpoints", ".*")); len(left) != 1 || len(hidden) != 0 {
		t.Errorf("after Prune(1): %q, %q", left, hidden)
	}
	if err := d.Prune(0); err != nil { // 0 keeps all
		t.Fatal(err)
	}
	at(10, "after pruning")
}

// The disk fills up at every point of a write in turn: the error says so, and the checkpoint before stays the latest.
func TestFullDisk(t *testing.T) {
	for point := 0; ; point++ {
		d := mustOpen(t, t.TempDir())
		if _, err := d.WriteCheckpoint(1, fill("one")); err != nil {
			t.Fatal(err)
		}
		n, failed := 0, ""
		d.before = func(op, path string) error {
			if n++; n-1 == point {
				failed = op
				return &os.PathError{Op: op, Path: path, Err: syscall.ENOSPC}
			}
			return nil
		}
		_, err := d.WriteCheckpoint(2, fill("two"))
		if failed == "" {
			if err != nil || point != 8 { // clear, mkdir, fill, sync, manifest, replace, rename, sync
				t.Errorf("%d points of failure, %v", point, err)
			}
			return
		}
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "step-2") {
			t.Errorf("full at %s: %v", failed, err)
		}
		want := 1
		if point == 7 { // renamed already: complete, though perhaps not durable
			want = 2
		}
		if c, broken, err := d.Latest(); err != nil || c.Step != want || len(broken) > 0 {
			t.Errorf("full at %s: latest %+v, broken %v, %v", failed, c, broken, err)
		}
		if left, _ := filepath.Glob(d.File("checkpoints", ".*")); len(left) > 0 {
			t.Errorf("full at %s: %q are left", failed, left)
		}
	}
}

func TestFailedFill(t *testing.T) {
	d := mustOpen(t, t.TempDir())
	_, err := d.WriteCheckpoint(1, func(dir string) error {
		return errors.Join(fill("half")(dir), syscall.ENOSPC)
	})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	if c, _, err := d.Latest(); c != nil || err != nil {
		t.Errorf("latest %+v, %v", c, err)
	}
}

// What a killed writer leaves is removed at the next start.
func TestSweepAndRewind(t *testing.T) {
	dir := t.TempDir()
	before := mustOpen(t, dir)
	if err := errors.Join(before.Begin(&settings{}, kinds...), before.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "checkpoints", ".step-3.tmp", "trainer"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "episodes", ".step-3.jsonl.123.tmp"), "half")
	for _, f := range []string{"episodes/step-1.jsonl", "episodes/step-2.jsonl", "episodes/step-10.jsonl", "profiles/step-3.jsonl",
		"eval/step-2-rules.jsonl", "eval/step-4-rules.jsonl", "episodes/mine.txt"} {
		put(t, filepath.Join(dir, f), "x")
	}
	d := mustOpen(t, dir)
	if err := d.Rewind(2); err != nil {
		t.Fatal(err)
	}
	var got []string
	filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if name, _ := filepath.Rel(dir, path); !e.IsDir() && name != "lock" && name != configName {
			got = append(got, name)
		}
		return err
	})
	if want := "episodes/mine.txt episodes/step-1.jsonl episodes/step-2.jsonl eval/step-2-rules.jsonl"; strings.Join(got, " ") != want {
		t.Errorf("left are %q, want %q", got, want)
	}
}

func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	type line struct {
		Step int `json:"step"`
	}
	l, err := OpenLog(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	for step := 1; step <= 4; step++ {
		if err := l.Append(line{step}); err != nil {
			t.Fatal(err)
		}
	}
	// A write that fails half-way is taken back.
	good := l.write
	l.write = func(p []byte) (int, error) {
		n, _ := good(p[:3])
		return n, syscall.ENOSPC
	}
	if err := l.Append(line{5}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("full disk: %v", err)
	}
	l.write = good
	if err := l.Append(line{6}); err != nil {
		t.Fatal(err)
	}
	l.Close()
	check := func(step int, torn, want string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		f.WriteString(torn)
		f.Close()
		l, err := OpenLog(path, step)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		text, _ := os.ReadFile(path)
		if string(text) != want {
			t.Errorf("opened at step %d: %q, want %q", step, text, want)
		}
	}
	check(9, `{"step":7`, "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"step\":4}\n{\"step\":6}\n") // a torn line goes
	check(3, "", "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n")                                      // later steps go
	check(3, "{\"step\":4}\n{\"step\":", "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n")
}

type settings struct {
	Seed  int `toml:"seed"`
	Every int `toml:"every"`
	Train struct {
		LR float64 `toml:"lr"`
	} `toml:"train"`
}

func (*settings) Validate() error { return nil }

func TestAgree(t *testing.T) {
	d := mustOpen(t, t.TempDir())
	cfg := &settings{Seed: 3, Every: 5}
	cfg.Train.LR = 1e-6
	for range 2 { // written, then found to be the same
		if err := errors.Join(d.Agree(cfg, &settings{}, "every"), d.Begin(cfg)); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Every = 9 // changes nothing that is computed
	if err := d.Agree(cfg, &settings{}, "every"); err != nil {
		t.Error(err)
	}
	cfg.Train.LR, cfg.Seed = 1e-5, 4
	err := d.Agree(cfg, &settings{}, "every")
	if err == nil || !strings.Contains(err.Error(), "seed was 3, is 4; train.lr was 0.000001, is 0.00001") {
		t.Errorf("another config: %v", err)
	}
}

func TestReplace(t *testing.T) {
	base := t.TempDir()
	for _, text := range []string{"one", "two"} {
		tmp := filepath.Join(base, ".tmp")
		if err := os.Mkdir(tmp, 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(tmp, "f"), text)
		if err := Replace(tmp, filepath.Join(base, "final")); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(base, "final", "f")); err != nil || string(got) != text {
			t.Errorf("%q, %v; want %q", got, err, text)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(base, "*")); len(left) != 1 {
		t.Errorf("left are %q", left)
	}
}
