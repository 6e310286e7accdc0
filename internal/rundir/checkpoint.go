package rundir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
)

// Checkpoint is a complete one.
type Checkpoint struct {
	Step int
	Path string
}

// Trainer is the folder of a checkpoint for what a Hugging Face directory does not have.
func (c *Checkpoint) Trainer() string { return filepath.Join(c.Path, "trainer") }

// Broken is a checkpoint that must not be used, and why.
type Broken struct {
	Path string
	Err  error
}

func stepName(step int) string { return fmt.Sprintf("step-%d", step) }

// WriteCheckpoint makes checkpoints/step-N. fill writes the files into the directory it is given, which has a folder
// trainer. On any error the directory is removed and everything that was there before still stands.
func (d *Dir) WriteCheckpoint(step int, fill func(dir string) error) (*Checkpoint, error) {
	parent, final := d.File("checkpoints"), d.File("checkpoints", stepName(step))
	tmp := filepath.Join(parent, "."+stepName(step)+".tmp")
	err := d.write(tmp, final, parent, fill)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write checkpoint %s: %w", final, err), os.RemoveAll(tmp))
	}
	return &Checkpoint{Step: step, Path: final}, nil
}

func (d *Dir) write(tmp, final, parent string, fill func(string) error) error {
	steps := []struct {
		op, path string
		do       func() error
	}{
		{"clear", tmp, func() error { return os.RemoveAll(tmp) }},
		{"mkdir", tmp, func() error { return os.MkdirAll(filepath.Join(tmp, "trainer"), 0o755) }},
		{"fill", tmp, func() error { return fill(tmp) }},
		{"sync", tmp, func() error { return syncTree(tmp) }},
		{"manifest", filepath.Join(tmp, manifestName), func() error { return writeManifest(tmp) }},
		{"replace", final, func() error { return moveAway(final) }},
		{"rename", final, func() error { return os.Rename(tmp, final) }},
		{"sync", parent, func() error { return syncPath(parent) }},
	}
	for _, s := range steps {
		if err := d.before(s.op, s.path); err != nil {
			return err
		}
		if err := s.do(); err != nil {
			return err
		}
	}
	return nil
}

// moveAway removes a directory so that no half of it is ever seen under its name.
func moveAway(path string) error {
	old := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".old.tmp")
	err := os.Rename(path, old)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(old)
}

// syncTree flushes every file and folder below a directory, and itself.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncPath(path)
	})
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// steps lists the checkpoints by name, newest first.
func (d *Dir) steps() ([]int, error) {
	entries, err := readDir(d.File("checkpoints"))
	if err != nil {
		return nil, err
	}
	var steps []int
	for _, e := range entries {
		var n int
		if _, err := fmt.Sscanf(e.Name(), "step-%d", &n); err == nil && e.Name() == stepName(n) {
			steps = append(steps, n)
		}
	}
	slices.SortFunc(steps, func(a, b int) int { return cmp.Compare(b, a) })
	return steps, nil
}

// Latest is the newest checkpoint whose every file is what its manifest says, nil if there is none; broken are the newer
// ones that are not.
func (d *Dir) Latest() (latest *Checkpoint, broken []Broken, err error) {
	steps, err := d.steps()
	if err != nil {
		return nil, nil, fmt.Errorf("look for checkpoints: %w", err)
	}
	for _, n := range steps {
		path := d.File("checkpoints", stepName(n))
		if err := Verify(path); err != nil {
			broken = append(broken, Broken{path, err})
			continue
		}
		return &Checkpoint{Step: n, Path: path}, broken, nil
	}
	return nil, broken, nil
}

// Resume gives the newest checkpoint to restore, and warns of newer ones that are broken. Without any it does nothing.
func (d *Dir) Resume(restore func(*Checkpoint) error) error {
	c, broken, err := d.Latest()
	for _, b := range broken {
		slog.Warn("ignored a broken checkpoint", "path", b.Path, "error", b.Err)
	}
	if err != nil || c == nil {
		return err
	}
	if err := restore(c); err != nil {
		return fmt.Errorf("resume from %s: %w", c.Path, err)
	}
	return nil
}

// Prune removes all but the newest keep checkpoints. 0 keeps all.
func (d *Dir) Prune(keep int) error {
	steps, err := d.steps()
	if err != nil || keep == 0 {
		return err
	}
	for _, n := range steps[min(keep, len(steps)):] {
		path := d.File("checkpoints", stepName(n))
		if err := d.before("prune", path); err != nil {
			return fmt.Errorf("remove an old checkpoint: %w", err)
		}
		if err := moveAway(path); err != nil {
			return fmt.Errorf("remove an old checkpoint: %w", err)
		}
	}
	return nil
}
