package dialogue

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestAtomicWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f.json")
	write := func(text string, fail error) error {
		return AtomicWrite(path, func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return errors.Join(err, fail)
		})
	}
	if err := write("one", nil); err != nil {
		t.Fatal(err)
	}
	full := errors.New("disk full")
	if err := write("two", full); !errors.Is(err, full) || !strings.Contains(err.Error(), path) {
		t.Errorf("failed write: %v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "one" {
		t.Errorf("after a failed write the file holds %q", got)
	}
	if err := write("three", nil); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); string(got) != "three" {
		t.Errorf("the file holds %q", got)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v", info.Mode())
	}
	if err := AtomicWrite(filepath.Join(dir, "none", "f"), func(io.Writer) error { return nil }); err == nil {
		t.Error("no error for a missing folder")
	}
}

// A link stays a link, wherever it leads; a pipe or a device is written to and stays what it is.
func TestAtomicWriteKeepsWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	put := func(path, text string) {
		t.Helper()
		if err := errors.Join(CheckWrite(path), AtomicWrite(path, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })); err != nil {
			t.Fatal(err)
		}
	}
	real := filepath.Join(dir, "sub", "real")
	for i, to := range []string{real, "sub/real", "nowhere", "first"} {
		link := filepath.Join(dir, []string{"absolute", "relative", "first", "second"}[i])
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
		put(link, link)
		if is, err := os.Readlink(link); err != nil || is != to {
			t.Errorf("%s leads to %q, %v; want %q", link, is, err, to)
		}
		if got, err := os.ReadFile(link); err != nil || string(got) != link {
			t.Errorf("%s holds %q, %v", link, got, err)
		}
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		text, _ := os.ReadFile(pipe)
		read <- string(text)
	}()
	put(pipe, "through")
	if got := <-read; got != "through" {
		t.Errorf("the pipe's reader got %q", got)
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("the pipe is now %v, %v", info, err)
	}
	put(os.DevNull, "gone")
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestCheckWrite(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	if err := CheckWrite(file); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		dir: syscall.EISDIR, filepath.Join(dir, "none", "f"): syscall.ENOENT, filepath.Join(file, "f"): syscall.ENOTDIR, loop: syscall.ELOOP,
	} {
		if err := CheckWrite(path); !errors.Is(err, want) || !strings.HasPrefix(err.Error(), "write "+path+": ") {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}
