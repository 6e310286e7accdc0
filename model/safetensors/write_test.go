package safetensors

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func sources() []Source {
	return []Source{
		Bytes("b.half", BF16, []int{3}, []byte{1, 2, 3, 4, 5, 6}),
		Bytes("c.scalar", F32, nil, []byte{9, 9, 9, 9}),
		Bytes("a.matrix", F32, []int{2, 2}, []byte("0123456789abcdef")),
		Bytes("d.empty", I64, []int{0, 4}, nil),
	}
}

func TestWriteThenOpen(t *testing.T) {
	dir := t.TempDir()
	if err := WriteDir(dir, sources(), 0); err != nil {
		t.Fatal(err)
	}
	check(t, dir)
	first, _ := os.ReadFile(filepath.Join(dir, SingleFile))
	shuffled := sources()
	slices.Reverse(shuffled)
	if err := WriteDir(dir, shuffled, 0); err != nil { // over the old one, in another order: the same bytes
		t.Fatal(err)
	}
	second, _ := os.ReadFile(filepath.Join(dir, SingleFile))
	if !bytes.Equal(first, second) {
		t.Error("the same tensors gave other bytes")
	}
	if st, _ := os.Stat(filepath.Join(dir, SingleFile)); st.Mode().Perm() != 0o644 {
		t.Errorf("mode %v", st.Mode())
	}
}

func TestWriteShards(t *testing.T) {
	dir := t.TempDir()
	// Sizes in order: 6, 4, 16, 0. At most 10 bytes: [6 4] [16 alone, too large] [0 would exceed: 16+0 > 10].
	if err := WriteDir(dir, sources(), 10); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	want := []string{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors", IndexFile}
	if !slices.Equal(files, want) {
		t.Errorf("files %v, want %v", files, want)
	}
	check(t, dir)
	index, _ := os.ReadFile(filepath.Join(dir, IndexFile))
	if !strings.Contains(string(index), `"total_size": 26`) {
		t.Errorf("index: %s", index)
	}
	if err := WriteDir(dir, sources(), 0); err == nil || !strings.Contains(err.Error(), "already there") {
		t.Errorf("a single file among old shards: %v", err)
	}
}

func check(t *testing.T, dir string) {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, src := range sources() {
		var b bytes.Buffer
		src.Write(&b)
		got := s.Get(src.Name)
		if got == nil || got.DType != src.DType || !slices.Equal(got.Shape, src.Shape) || !bytes.Equal(got.Data, b.Bytes()) {
			t.Errorf("%s: got %+v", src.Name, got)
		}
	}
	if len(s.Names()) != len(sources()) || s.Metadata()["format"] != "pt" {
		t.Errorf("names %v, metadata %v", s.Names(), s.Metadata())
	}
}

// A failure in the middle leaves the old file, and no temporary one.
func TestWriteIsAtomic(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.safetensors")
	if err := Write(path, nil, sources()); err != nil {
		t.Fatal(err)
	}
	old, _ := os.ReadFile(path)
	for _, tc := range []struct {
		name string
		src  Source
		want string
	}{
		{"failing source", Source{"z", F32, []int{1}, func(w io.Writer) error { return errors.New("disk on fire") }}, `tensor "z": disk on fire`},
		{"full disk", Source{"z", F32, []int{1}, func(w io.Writer) error { return syscall.ENOSPC }}, "no space left on device"},
		{"too few bytes", Bytes("z", F32, []int{2}, make([]byte, 4)), "4 bytes written, F32 [2] takes 8"},
		{"unknown dtype", Bytes("z", "Q4", []int{2}, nil), `dtype "Q4" is unknown`},
		{"twice", Bytes("a.matrix", F32, []int{1}, make([]byte, 4)), "taken twice"},
	} {
		err := Write(path, nil, append(sources(), tc.src))
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
		now, _ := os.ReadFile(path)
		files, _ := os.ReadDir(dir)
		if !bytes.Equal(old, now) || len(files) != 1 {
			t.Errorf("%s: the old file is damaged, or something is left: %v", tc.name, files)
		}
	}
}
