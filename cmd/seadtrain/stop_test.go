package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"seadtrain/dialogue"
	"seadtrain/internal/testmodel"
)

// A stop keeps the dialogues that are over, and nothing else.
func TestStopKeepsDialogues(t *testing.T) {
	dir := t.TempDir()
	cfg := write(t, dir, "a.toml", testmodel.RunConfig(testmodel.Tiny(t, 1)))
	out := filepath.Join(dir, "d.jsonl")
	for _, args := range [][]string{{"rollout", cfg, "--sample", "5000"}, {"eval", cfg, "--profiles", "5000"}} {
		w := start(t, append(args, "--out", out)...)
		if !w.at(moment{phase: "played"}) {
			t.Fatalf("%q: no dialogue\n%s", args, w.log)
		}
		if err := w.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if code := w.end(); code != 130 || !strings.Contains(w.log.String(), "finished_dialogues=") || strings.Contains(w.log.String(), "checkpoint") {
			t.Errorf("%q: exit %d\n%s", args, code, w.log)
		}
		episodes, err := dialogue.ReadEpisodes(out)
		if err != nil || len(episodes) == 0 || len(episodes) == 5000 {
			t.Errorf("%q: %d dialogues are kept, %v", args, len(episodes), err)
		}
		for _, ep := range episodes {
			if ep.End == dialogue.EndCancelled {
				t.Errorf("%q: dialogue %s was cut off", args, ep.ID)
			}
		}
		os.Remove(out)
	}
	if left := listing(t, dir); left != "a.toml" {
		t.Errorf("left behind: %s", left)
	}
}

// Commands that only read stop at once, though their input never ends.
func TestStopWhileReading(t *testing.T) {
	tiny := testmodel.Tiny(t, 1)
	for _, c := range []struct {
		args string
		sig  syscall.Signal
		code int
	}{
		{"analyze", syscall.SIGTERM, 143}, {"profiles validate", syscall.SIGINT, 130}, {"score " + tiny, syscall.SIGTERM, 143},
	} {
		pipe := filepath.Join(t.TempDir(), "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		w := start(t, append(strings.Fields(c.args), pipe)...)
		var held *os.File
		for began := time.Now(); held == nil; time.Sleep(10 * time.Millisecond) {
			f, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0) // as soon as the program reads
			if err == nil {
				held = f
			} else if time.Since(began) > time.Minute {
				t.Fatal(err)
			}
		}
		if err := w.cmd.Process.Signal(c.sig); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		code := w.end()
		if log := w.log.String(); code != c.code || !strings.Contains(log, ": stopping; once more") || !strings.Contains(log, "seadtrain: stopped by ") {
			t.Errorf("%s: exit %d\n%s", c.args, code, log)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: stopped after %v", c.args, took)
		}
		held.Close()
	}
}
