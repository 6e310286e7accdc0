package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Peer is another program, behind a Python server that reads one JSON job per line and answers each with one. It ends when
// its standard input does, so that it never outlives this process.
type Peer struct {
	Name  string   // with versions, once a model is loaded
	Notes []string // about every row of it

	cmd     *exec.Cmd
	jobs    io.WriteCloser
	answers chan []byte // closed when the peer ends
	log     string
}

// answer is the whole of what a peer may say.
type answer struct {
	Took
	Versions string `json:"versions"`
	Error    string `json:"error"`
}

// StartPeer starts a server; what it prints beside its answers goes to a log file.
func StartPeer(name, python, script, log string) (*Peer, error) {
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return nil, err
	}
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &Peer{Name: name, log: log, answers: make(chan []byte)}
	p.cmd = exec.Command(python, script)
	p.cmd.Stderr, p.cmd.Env = out, peerEnv(os.Environ())
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is ours to pass on, and it may have children
	if p.jobs, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	pipe, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		defer close(p.answers)
		lines := bufio.NewReader(pipe)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			p.answers <- line
		}
	}()
	return p, nil
}

// peerEnv is the environment with OpenMP threads that spin longer than ours (see main): some 100 µs, which covers what lies
// between a peer's parallel regions. libgomp's default, milliseconds, makes a peer many times slower as soon as anything
// else wants a core. Huge pages for tensors are asked for as for ours.
func peerEnv(env []string) []string {
	out := []string{"GOMP_SPINCOUNT=10000", "THP_MEM_ALLOC_ENABLE=1"}
	for _, kv := range env {
		if !strings.HasPrefix(kv, "OMP_WAIT_POLICY=") && !strings.HasPrefix(kv, "GOMP_SPINCOUNT=") && !strings.HasPrefix(kv, "THP_MEM_ALLOC_ENABLE=") {
			out = append(out, kv)
		}
	}
	return out
}

// call sends a job and waits for its answer. When ctx ends first, the peer is killed: it cannot be told to stop.
func (p *Peer) call(ctx context.Context, job map[string]any) (a answer, err error) {
	line, err := json.Marshal(job)
	if err != nil {
		return a, err
	}
	if _, err := p.jobs.Write(append(line, '\n')); err != nil {
		return a, p.ended()
	}
	select {
	case line, ok := <-p.answers:
		if !ok {
			return a, p.ended()
		}
		if err := json.Unmarshal(line, &a); err != nil {
			return a, fmt.Errorf("%s answered %.80q: %w", p.Name, line, err)
		}
	case <-ctx.Done():
		p.kill()
		return a, fmt.Errorf("%s, %v: %w", p.Name, job["do"], context.Cause(ctx))
	}
	if a.Error != "" {
		return a, fmt.Errorf("%s, %v: %s", p.Name, job["do"], a.Error)
	}
	return a, nil
}

// ended says what a peer that is no more said last.
func (p *Peer) ended() error {
	text, _ := os.ReadFile(p.log)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	last := lines[len(lines)-1]
	if last == "" {
		last = "without a word"
	}
	return fmt.Errorf("%s ended: %.200s [%s]", p.Name, last, p.log)
}

// kill ends the peer and what it started.
func (p *Peer) kill() {
	if p.cmd.ProcessState != nil { // it is gone, and its number may be another's
		return
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // it may be gone
	for range p.answers {
	}
	_ = p.cmd.Wait()
}

// Close ends the peer, by force if it does not go in time.
func (p *Peer) Close() {
	p.jobs.Close()
	select {
	case <-p.answers:
	case <-time.After(5 * time.Second):
	}
	p.kill()
}

// Load has the peer load a model.
func (p *Peer) Load(ctx context.Context, job map[string]any) error {
	job["do"] = "load"
	a, err := p.call(ctx, job)
	if err == nil && a.Versions == "" {
		err = errors.New("no versions in the answer to load")
	}
	if err == nil {
		name, _, _ := strings.Cut(p.Name, " (")
		p.Name = name + " (" + a.Versions + ")"
	}
	return err
}

func (p *Peer) Prompts(ctx context.Context, prompts [][]int32, room int) (Took, error) {
	a, err := p.call(ctx, map[string]any{"do": "prompts", "prompts": prompts, "room": room})
	return a.Took, err
}

func (p *Peer) Decode(ctx context.Context, n, tokens int) (Took, error) {
	a, err := p.call(ctx, map[string]any{"do": "decode", "n": n, "tokens": tokens})
	return a.Took, err
}

func (p *Peer) Rollout(ctx context.Context, s *Script, how How) (Took, error) {
	a, err := p.call(ctx, map[string]any{"do": "rollout", "script": s, "how": how})
	return a.Took, err
}
