package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Dir is a run directory that this process holds until Close.
type Dir struct {
	Path string

	lock *lock
	made []string // folders that opening it made, the innermost first
	// before is called ahead of every change to the disk; tests make it fail.
	before func(op, path string) error
}

// New makes the directory base/<name>-<date>-<n> with the smallest n that is free.
func New(base, name string, now time.Time) (*Dir, error) {
	made, err := makeAll(base)
	if err != nil {
		return nil, fmt.Errorf("new run directory: %w", err)
	}
	for n := 1; ; n++ {
		path := filepath.Join(base, fmt.Sprintf("%s-%s-%d", name, now.Format("2006-01-02"), n))
		switch err := os.Mkdir(path, 0o755); {
		case err == nil:
			return open(path, append([]string{path}, made...))
		case !errors.Is(err, fs.ErrExist):
			return nil, fmt.Errorf("new run directory: %w", err)
		}
	}
}

// Open takes a directory, made if it is not there, and removes what interrupted writes left in it. An *InUseError says
// that another process holds it.
func Open(path string) (*Dir, error) {
	made, err := makeAll(path)
	if err != nil {
		return nil, fmt.Errorf("open run directory: %w", err)
	}
	return open(path, made)
}

func open(path string, made []string) (*Dir, error) {
	l, err := acquire(filepath.Join(path, "lock"))
	if err != nil {
		return nil, err
	}
	d := &Dir{Path: path, lock: l, made: made, before: func(string, string) error { return nil }}
	if err := d.sweep(); err != nil {
		return nil, errors.Join(fmt.Errorf("open run directory: %w", err), d.Close())
	}
	return d, nil
}

// makeAll is os.MkdirAll and tells which folders it made, the innermost first.
func makeAll(path string) (made []string, err error) {
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = append(made, at)
	}
	return made, os.MkdirAll(path, 0o755)
}

// Close gives the directory back. One that Open made and no run began in is removed.
func (d *Dir) Close() error {
	if len(d.made) > 0 && d.lock.f != nil {
		if _, err := os.Lstat(d.File(configName)); errors.Is(err, fs.ErrNotExist) {
			os.Remove(d.File("lock"))
			for _, path := range d.made {
				os.Remove(path) // unless it holds something
			}
		}
	}
	return d.lock.release()
}

// File is the path of something in the directory.
func (d *Dir) File(parts ...string) string {
	return filepath.Join(append([]string{d.Path}, parts...)...)
}

// Step is the path of a step's file: Step("episodes", 3) is episodes/step-3.jsonl.
func (d *Dir) Step(kind string, step int) string {
	return d.File(kind, fmt.Sprintf("step-%d.jsonl", step))
}

// kinds are the folders of a run that hold files by step.
var kinds = []string{"episodes", "profiles", "eval"}

// readDir is os.ReadDir; a folder that is not there is empty.
func readDir(path string) ([]os.DirEntry, error) {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// sweep removes unfinished checkpoints and half-written files. Only the holder of the lock may.
func (d *Dir) sweep() error {
	for _, sub := range append([]string{".", "checkpoints"}, kinds...) {
		entries, err := readDir(d.File(sub))
		if err != nil {
			return err
		}
		for _, e := range entries {
			if name := e.Name(); strings.HasPrefix(name, ".") && strings.HasSuffix(name, ".tmp") {
				if err := os.RemoveAll(d.File(sub, name)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Rewind removes the files of steps after this one, which a resumed run will write again.
func (d *Dir) Rewind(step int) error {
	for _, kind := range kinds {
		entries, err := readDir(d.File(kind))
		if err != nil {
			return fmt.Errorf("rewind to step %d: %w", step, err)
		}
		for _, e := range entries {
			var n int
			if _, err := fmt.Sscanf(e.Name(), "step-%d", &n); err != nil || n <= step {
				continue
			}
			if err := os.Remove(d.File(kind, e.Name())); err != nil {
				return fmt.Errorf("rewind to step %d: %w", step, err)
			}
		}
	}
	return nil
}

// Replace puts the directory tmp, all of it flushed to disk, in the place of another.
func Replace(tmp, final string) error {
	for _, do := range []func() error{
		func() error { return syncTree(tmp) },
		func() error { return moveAway(final) },
		func() error { return os.Rename(tmp, final) },
		func() error { return syncPath(filepath.Dir(final)) },
	} {
		if err := do(); err != nil {
			return fmt.Errorf("write %s: %w", final, err)
		}
	}
	return nil
}
