package bench

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"seadtrain/internal/convert"
	"seadtrain/torch"
)

//go:embed peers/*.py
var scripts embed.FS

// peerKind is how a peer is installed, and what is measured against it.
type peerKind struct {
	suffix  string   // of rows' names
	script  string   // in peers/
	setup   []string // in scripts/: makes the venv
	venv    string   // in build/
	decodes int      // largest batch that is compared. 0: all, but not in the suite "all"
	prefill bool     // in the suite "all"
	gguf    bool     // it reads GGUF
	rollout func(b *bench, name string) []task
}

var peerKinds map[string]peerKind

func init() { // it refers to itself through its rows
	peerKinds = map[string]peerKind{
		"hf":        {suffix: "hf", script: "hf.py", setup: []string{"interop-venv.sh"}, venv: "venv-interop", rollout: (*bench).rolloutAgainstHF},
		"llama.cpp": {suffix: "llamacpp", script: "llamacpp.py", setup: []string{"peer-venv.sh", "llamacpp"}, venv: "venv-llamacpp", decodes: 16, gguf: true},
		"openvino": {suffix: "openvino", script: "ov.py", setup: []string{"peer-venv.sh", "openvino"}, venv: "venv-openvino", decodes: math.MaxInt, prefill: true,
			rollout: (*bench).rolloutAgainstOpenVINO},
	}
}

// Peers are the names that Options.Against may hold, in the order in which they are measured.
var Peers = []string{"llama.cpp", "openvino", "hf"}

// peers keeps at most one peer at work: each takes gigabytes.
type peers struct {
	now  *Peer
	key  string           // name and precision of the one at work
	fail map[string]error // by key: why it cannot be had
}

func (p *peers) close() {
	if p.now != nil {
		p.now.Close()
	}
	p.now, p.key = nil, ""
}

// open installs and starts a peer, unless it is at work, and checks that it speaks as we do. The model at hand is b.engine's.
func (b *bench) open(ctx context.Context, name, precision string) error {
	key := name + " " + precision
	if b.peers.key == key {
		return nil
	}
	b.peers.close()
	if err := b.peers.fail[key]; err != nil { // once is enough
		return err
	}
	began := time.Now()
	err := b.start(ctx, name, precision)
	b.began = b.began.Add(time.Since(began)) // not counted
	if err == nil {
		b.peers.key = key
		err = b.agree(ctx)
	}
	if err != nil {
		b.peers.close()
		if b.peers.fail == nil {
			b.peers.fail = map[string]error{}
		}
		b.peers.fail[key] = err
	}
	return err
}

func (b *bench) start(ctx context.Context, name, precision string) error {
	kind := peerKinds[name]
	if err := b.install(ctx, kind); err != nil {
		return err
	}
	dir := filepath.Join(b.Root, "build", "bench")
	for _, script := range []string{"serve.py", kind.script} {
		text, err := scripts.ReadFile("peers/" + script)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, script), text, 0o644); err != nil {
			return err
		}
	}
	model := b.engine.Dir
	if kind.gguf {
		var err error
		if model, err = b.gguf(ctx, precision); err != nil {
			return err
		}
	}
	var err error
	b.peers.now, err = StartPeer(name, filepath.Join(b.Root, "build", kind.venv, "bin", "python"), filepath.Join(dir, kind.script),
		filepath.Join(dir, "log", kind.suffix+".log"))
	if err != nil {
		return err
	}
	return b.peers.load(ctx, model, precision, b.cacheTokens())
}

// load gives the peer at work a model. cacheTokens: the most that it must hold at once, for a peer that asks beforehand.
func (p *peers) load(ctx context.Context, dir, precision string, cacheTokens int) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	id, err := identity(dir)
	if err != nil {
		return err
	}
	p.key = ""
	return p.now.Load(ctx, map[string]any{"model": dir, "id": id, "precision": precision, "threads": torch.NumThreads(), "cache_tokens": cacheTokens})
}

// cacheTokens is the most that a peer must hold at once.
func (b *bench) cacheTokens() int {
	s := b.script()
	n := b.Sizes.largest() * (b.Sizes.Context + b.Sizes.Tokens)
	if b.Suite == "rollout" || b.Suite == "all" {
		n = max(n, s.Dialogues()*(s.Length(0)+s.Length(1)))
	}
	return n
}

// install runs the set-up script that makes the peer's venv, which does nothing if it is there.
func (b *bench) install(ctx context.Context, kind peerKind) error {
	script := filepath.Join(b.Root, "scripts", kind.setup[0])
	if _, err := os.Stat(script); err != nil {
		return fmt.Errorf("peers are installed by the clone's scripts: %w", err)
	}
	cmd := exec.CommandContext(ctx, script, kind.setup[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("%s: %s (%w)", kind.setup[0], lines[len(lines)-1], err)
	}
	return nil
}

// identity names a model's weights, for what is made of them and kept.
func identity(dir string) (string, error) {
	h := sha256.New()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return "", err
	}
	if st, err := os.Stat(dir); err == nil && !st.IsDir() {
		files = []string{dir}
	}
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(h, f, st.Size(), st.ModTime().UnixNano())
	}
	return filepath.Base(dir) + "-" + hex.EncodeToString(h.Sum(nil)[:5]), nil
}

var ggufTypes = map[string]string{"fp32": "fp32", "bf16": "bf16", "int8": "q8_0"}

// gguf converts the model, once for each precision.
func (b *bench) gguf(ctx context.Context, precision string) (string, error) {
	id, err := identity(b.engine.Dir)
	if err != nil {
		return "", err
	}
	file := filepath.Join(b.Root, "build", "bench", id+"-"+precision+".gguf")
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		return file, err
	}
	return file, convert.Convert(ctx, b.engine.Dir, file, convert.Options{DType: ggufTypes[precision]})
}

// agreeTokens of each of three prompts are drawn by both sides, greedily.
const agreeTokens = 40

// agree has both sides go on from the same prompts and notes how far they go the same way.
func (b *bench) agree(ctx context.Context) error {
	var drawn [2][][]int32
	for i, s := range []Side{b.engine, b.peers.now} {
		if _, err := s.Prompts(ctx, b.text.Prompts(3, 60), agreeTokens); err != nil {
			return err
		}
		took, err := s.Decode(ctx, 3, agreeTokens)
		if err != nil {
			return err
		}
		drawn[i] = took.IDs
	}
	b.engine.drop()
	note, err := agreement(drawn[0], drawn[1])
	b.peers.now.Notes = []string{note}
	return err
}

// agreement says how many tokens the sides have in common before they part. Sides that part at once have not read the same
// prompt with the same weights.
func agreement(ours, theirs [][]int32) (string, error) {
	if len(ours) != len(theirs) {
		return "", fmt.Errorf("%d prompts were continued, not %d", len(theirs), len(ours))
	}
	var same []string
	any := false
	for i, a := range ours {
		n := 0
		for n < min(len(a), len(theirs[i])) && a[n] == theirs[i][n] {
			n++
		}
		any = any || n > 0
		same = append(same, fmt.Sprint(n))
	}
	note := fmt.Sprintf("greedy tokens agree for %s of %d", strings.Join(same, ", "), len(slices.Concat(ours[:1]...)))
	if !any {
		return "", errors.New(note)
	}
	return note, nil
}
