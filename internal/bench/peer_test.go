package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"seadtrain/internal/testenv"
)

// standIn starts the stand-in of testdata with the real server around it.
func standIn(t *testing.T) *Peer {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		testenv.Missing(t, "python3: %v", err)
	}
	here, err := filepath.Abs("peers")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SERVE", here)
	p, err := StartPeer("stand-in", python, filepath.Join("testdata", "standin.py"), filepath.Join(t.TempDir(), "log", "stand-in.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func TestPeer(t *testing.T) {
	p, ctx := standIn(t), context.Background()
	if err := p.Load(ctx, map[string]any{"model": "m"}); err != nil || p.Name != "stand-in (1.0)" {
		t.Fatalf("%s: %v", p.Name, err)
	}
	if took, err := p.Prompts(ctx, [][]int32{{1, 2}, {3}}, 1); err != nil || took.Tokens != 3 || took.Rate() != 1.5 {
		t.Errorf("%+v, %v", took, err)
	}
	if _, err := p.call(ctx, map[string]any{"do": "fail"}); err == nil || !strings.Contains(err.Error(), "stand-in (1.0), fail: ValueError: no such thing") {
		t.Errorf("an error's answer: %v", err)
	}
	if _, err := p.call(ctx, map[string]any{"do": "nothing"}); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("an unknown job: %v", err)
	}
	if took, err := p.Prompts(ctx, [][]int32{{1}}, 1); err != nil || took.Seconds != 2 { // it goes on after errors
		t.Errorf("%+v, %v", took, err)
	}
	if _, err := p.call(ctx, map[string]any{"do": "die"}); err == nil || !strings.Contains(err.Error(), "ended: out of everything [") {
		t.Errorf("a death: %v", err)
	}
	if _, err := p.Decode(ctx, 1, 1); err == nil || !strings.Contains(err.Error(), "ended: out of everything") {
		t.Errorf("a job for a dead peer: %v", err)
	}
	if _, err := StartPeer("none", "/no/python", "x", filepath.Join(t.TempDir(), "log")); err == nil {
		t.Error("a peer without a program starts")
	}
}

// A stop in the middle of a job ends the peer and its children at once; so does the end of this process, which closes
// its standard input.
func TestPeerEnds(t *testing.T) {
	for name, end := range map[string]func(p *Peer, cancel func()){
		"stop": func(_ *Peer, cancel func()) { cancel() },
		"gone": func(p *Peer, _ func()) { p.jobs.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			p := standIn(t)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			file := filepath.Join(t.TempDir(), "pids")
			failed := make(chan error, 1)
			go func() {
				_, err := p.call(ctx, map[string]any{"do": "hang", "file": file})
				failed <- err
			}()
			var pids [2]int
			await(t, "its pids", func() bool {
				text, err := os.ReadFile(file)
				if err != nil {
					return false
				}
				_, err = fmt.Sscan(string(text), &pids[0], &pids[1])
				return err == nil
			})
			end(p, cancel)
			err := <-failed
			if name == "stop" && !errors.Is(err, context.Canceled) || err == nil {
				t.Errorf("%v", err)
			}
			p.Close() // "gone": the child is left to whoever closes the peer, or to init
			for _, pid := range pids {
				await(t, fmt.Sprint("the end of ", pid), func() bool { return syscall.Kill(pid, 0) != nil || zombie(pid) })
			}
		})
	}
}

func zombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(text), ") Z ")
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for began := time.Now(); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			t.Fatal("no sign of ", what)
		}
	}
}
