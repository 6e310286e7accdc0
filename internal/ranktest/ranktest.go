// Package ranktest runs the ranks of a test as real processes: the test binary starts itself once per rank. Tests only.
package ranktest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"seadtrain/torch"
)

const variable = "SEADTRAIN_TEST_RANK"

// Rank is what a task is given.
type Rank struct {
	Task    string
	World   int
	TPSize  int
	DPSize  int
	Dir     string // shared by all ranks of the job and the test
	TP, DP  *torch.Comm
	timeout time.Duration
}

// Main runs the task if this process was started as a rank, and the tests otherwise, with a check that no tensor is left. TestMain calls it.
func Main(m *testing.M, tasks map[string]func(*Rank) error) {
	spec := os.Getenv(variable)
	if spec == "" {
		os.Exit(torch.CheckLeaks(m.Run))
	}
	if err := child(spec, tasks); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child(spec string, tasks map[string]func(*Rank) error) error {
	r := &Rank{timeout: 30 * time.Second}
	if err := json.Unmarshal([]byte(spec), r); err != nil {
		return err
	}
	torch.SetNumThreads(1)
	store, err := r.rendezvous()
	if err != nil {
		return err
	}
	// Ranks of one tensor-parallel group are neighbours.
	t, d := r.World%r.TPSize, r.World/r.TPSize
	if r.TP, err = store.Gloo(fmt.Sprintf("tp%d", d), t, r.TPSize, r.timeout); err != nil {
		return err
	}
	if r.DP, err = store.Gloo(fmt.Sprintf("dp%d", t), d, r.DPSize, r.timeout); err != nil {
		return err
	}
	task, ok := tasks[r.Task]
	if !ok {
		return fmt.Errorf("no task %q", r.Task)
	}
	if err := task(r); err != nil {
		return err
	}
	// Rank 0 serves the store: it stays until all are done.
	if err := os.WriteFile(r.done(r.World), nil, 0o644); err != nil || r.World != 0 {
		return err
	}
	for i := range r.TPSize * r.DPSize {
		if err := r.await(r.done(i)); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rank) done(i int) string { return filepath.Join(r.Dir, fmt.Sprintf(".done-%d", i)) }

// rendezvous opens the store: rank 0 on a free port, which it leaves in a file for the others.
func (r *Rank) rendezvous() (*torch.Store, error) {
	file, size := filepath.Join(r.Dir, ".port"), r.TPSize*r.DPSize
	if r.World == 0 {
		s, err := torch.OpenStore("127.0.0.1", 0, true, size, r.timeout)
		if err == nil {
			err = os.WriteFile(file+"~", []byte(strconv.Itoa(s.Port)), 0o644)
		}
		if err == nil {
			err = os.Rename(file+"~", file)
		}
		return s, err
	}
	if err := r.await(file); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(string(b))
	if err != nil {
		return nil, err
	}
	return torch.OpenStore("127.0.0.1", port, false, size, r.timeout)
}

func (r *Rank) await(file string) error {
	for end := time.Now().Add(r.timeout); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			return nil
		}
	}
	return fmt.Errorf("rank %d: %s did not appear in %v", r.World, filepath.Base(file), r.timeout)
}

// Run starts tp·dp ranks on a task and waits for all of them; it fails the test if one fails. Their shared folder is
// returned.
func Run(t *testing.T, task string, tp, dp int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	out := make([]bytes.Buffer, tp*dp)
	cmds := make([]*exec.Cmd, tp*dp)
	for i := range cmds {
		spec, err := json.Marshal(Rank{Task: task, World: i, TPSize: tp, DPSize: dp, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(ctx, os.Args[0])
		c.Env = append(os.Environ(), variable+"="+string(spec), "OMP_WAIT_POLICY=passive")
		c.Stdout, c.Stderr = &out[i], &out[i]
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		cmds[i] = c
	}
	for i, c := range cmds {
		if err := c.Wait(); err != nil {
			t.Errorf("%s, rank %d of tp %d × dp %d: %v\n%s", task, i, tp, dp, err, out[i].String())
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	return dir
}
