package dialogue

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func TestAppenderReopens(t *testing.T) {
	eps := episodes(t)
	whole, err := MarshalEpisode(&eps[1], WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, before string
		dropped      int64
		kept         int // lines of before that survive
	}{
		{"new file", "", 0, 0},
		{"whole lines", string(whole) + string(whole), 0, 2},
		{"torn line", string(whole) + string(whole[:50]), 50, 1},
		{"torn first line", string(whole[:50]), 50, 0},
		{"torn but for the brace", string(whole[:len(whole)-2]), int64(len(whole)) - 2, 0},
		{"newline missing only", string(whole) + string(whole[:len(whole)-1]), 0, 2},
		{"a hole of NULs after a power cut", string(whole) + strings.Repeat("\x00", 100<<10), 100 << 10, 1},
	} {
		path := filepath.Join(t.TempDir(), "e.jsonl")
		if err := os.WriteFile(path, []byte(c.before), 0o644); err != nil {
			t.Fatal(err)
		}
		a, err := OpenAppender(path, WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if a.Dropped() != c.dropped {
			t.Errorf("%s: dropped %d bytes, want %d", c.name, a.Dropped(), c.dropped)
		}
		if err := errors.Join(a.Append(&eps[2]), a.Append(&eps[1]), a.Close()); err != nil {
			t.Fatal(err)
		}
		got, err := ReadEpisodes(path)
		want := append(repeat(eps[1], c.kept), eps[2], eps[1])
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v; %d episodes, want %d", c.name, err, len(got), len(want))
		}
	}
}

func repeat(ep Episode, n int) []Episode {
	var all []Episode
	for range n {
		all = append(all, ep)
	}
	return all
}

// A disk that fills up in mid-line: the error comes back, the file holds whole lines only, and once there is room
// again appending goes on.
func TestAppenderTakesBackHalfALine(t *testing.T) {
	eps := episodes(t)
	path := filepath.Join(t.TempDir(), "e.jsonl")
	a, err := OpenAppender(path, WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Append(&eps[1]); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(path)
	a.write = func(line []byte) (int, error) {
		n, _ := a.f.Write(line[:len(line)/2])
		return n, syscall.ENOSPC
	}
	if err := a.Append(&eps[2]); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
		t.Errorf("full disk: %v", err)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Errorf("half a line stayed:\n%s", after)
	}
	a.write = a.f.Write
	if err := errors.Join(a.Append(&eps[2]), a.Close()); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadEpisodes(path); err != nil || !reflect.DeepEqual(got, []Episode{eps[1], eps[2]}) {
		t.Errorf("%v: %d episodes", err, len(got))
	}
}

func TestAppenderManyGoroutines(t *testing.T) {
	eps := episodes(t)
	path := filepath.Join(t.TempDir(), "e.jsonl")
	a, err := OpenAppender(path, WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 50 {
				if err := a.Append(&eps[1]); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadEpisodes(path); err != nil || len(got) != 400 {
		t.Errorf("%d episodes, %v", len(got), err)
	}
}

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
