package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Names of the files in a Hugging Face directory.
const (
	SingleFile = "model.safetensors"
	IndexFile  = "model.safetensors.index.json"
)

// Tensor is one stored tensor. Data is the file's mapping: valid until the Set is closed.
type Tensor struct {
	Name  string
	DType DType
	Shape []int
	Data  []byte
	File  string // path of the file it is in
}

// Len is the number of elements.
func (t *Tensor) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Float32s converts the whole tensor; see the function Float32s.
func (t *Tensor) Float32s() ([]float32, error) {
	v, err := Float32s(t.DType, t.Data)
	if err != nil {
		return nil, fmt.Errorf("%s: tensor %q: %w", t.File, t.Name, err)
	}
	return v, nil
}

// Rows are the bytes of t[lo:hi] along the first axis: a part of the mapping, nothing is read or copied.
func (t *Tensor) Rows(lo, hi int) ([]byte, error) {
	if len(t.Shape) < 1 || lo < 0 || hi < lo || hi > t.Shape[0] {
		return nil, fmt.Errorf("%s: tensor %q %v: rows %d to %d do not exist", t.File, t.Name, t.Shape, lo, hi)
	}
	if t.Shape[0] == 0 {
		return nil, nil
	}
	row := len(t.Data) / t.Shape[0]
	return t.Data[lo*row : hi*row : hi*row], nil
}

// Cols is a copy of t[:, lo:hi] of a matrix; only the pages that hold these columns are read.
func (t *Tensor) Cols(lo, hi int) ([]byte, error) {
	if len(t.Shape) != 2 || lo < 0 || hi < lo || hi > t.Shape[1] {
		return nil, fmt.Errorf("%s: tensor %q %v: columns %d to %d of a matrix do not exist", t.File, t.Name, t.Shape, lo, hi)
	}
	size := t.DType.Size()
	row, from, n := t.Shape[1]*size, lo*size, (hi-lo)*size
	out := make([]byte, 0, t.Shape[0]*n)
	for r := range t.Shape[0] {
		out = append(out, t.Data[r*row+from:r*row+from+n]...)
	}
	return out, nil
}

// Set is an open checkpoint: one file or all shards of a directory.
type Set struct {
	tensors map[string]*Tensor
	meta    map[string]string
	maps    [][]byte
}

// Open maps a .safetensors file, an index file, or the model in a Hugging Face directory.
func Open(path string) (*Set, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open safetensors: %w", err)
	}
	if st.IsDir() {
		if path, err = find(path); err != nil {
			return nil, err
		}
	}
	s := &Set{tensors: map[string]*Tensor{}}
	if strings.HasSuffix(path, ".index.json") {
		err = s.addIndex(path)
	} else {
		err = s.addFile(path)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// find looks for the weights in a directory, in the order of transformers.
func find(dir string) (string, error) {
	for _, name := range []string{SingleFile, IndexFile} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	hint := ""
	if old, _ := filepath.Glob(filepath.Join(dir, "*.bin")); len(old) > 0 {
		hint = fmt.Sprintf("; %s is PyTorch's pickle format, which is not read: save it as safetensors", filepath.Base(old[0]))
	} else if g, _ := filepath.Glob(filepath.Join(dir, "*.gguf")); len(g) > 0 {
		hint = fmt.Sprintf("; %s has to be converted first", filepath.Base(g[0]))
	}
	return "", fmt.Errorf("%s: no %s and no %s here%s", dir, SingleFile, IndexFile, hint)
}

// addFile maps one file and takes in its tensors.
func (s *Set) addFile(path string) error {
	data, err := mapFile(path)
	if err != nil {
		return err
	}
	s.maps = append(s.maps, data)
	entries, meta, start, err := parseHeader(data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, e := range entries {
		if t, dup := s.tensors[e.name]; dup {
			return fmt.Errorf("%s: tensor %q is also in %s", path, e.name, t.File)
		}
		lo, hi := start+e.begin, start+e.end
		s.tensors[e.name] = &Tensor{Name: e.name, DType: e.dtype, Shape: e.shape, Data: data[lo:hi:hi], File: path}
	}
	if s.meta == nil {
		s.meta = map[string]string{}
	}
	maps.Copy(s.meta, meta)
	return nil
}

// addIndex reads an index and demands that it and the shards say the same.
func (s *Set) addIndex(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("open safetensors: %w", err)
	}
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(index.WeightMap) == 0 {
		return fmt.Errorf("%s: weight_map is missing or empty", path)
	}
	shards := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(index.WeightMap)) {
		file := index.WeightMap[name]
		if file == "" || file != filepath.Base(file) || file == ".." || file == "." {
			return fmt.Errorf("%s: tensor %q: %q is not the name of a file in this directory", path, name, file)
		}
		shards[file] = true
	}
	dir := filepath.Dir(path)
	for _, file := range slices.Sorted(maps.Keys(shards)) {
		if err := s.addFile(filepath.Join(dir, file)); err != nil {
			return fmt.Errorf("%s: shard: %w", path, err)
		}
	}
	for name, file := range index.WeightMap {
		if t := s.tensors[name]; t == nil {
			return fmt.Errorf("%s: tensor %q is listed for %s, which does not have it", path, name, file)
		} else if filepath.Base(t.File) != file {
			return fmt.Errorf("%s: tensor %q is listed for %s, but is in %s", path, name, file, t.File)
		}
	}
	for name, t := range s.tensors {
		if _, ok := index.WeightMap[name]; !ok {
			return fmt.Errorf("%s: tensor %q of %s is not listed", path, name, t.File)
		}
	}
	return nil
}

// mapFile maps a whole file copy-on-write.
func mapFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open safetensors: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	if st.Size() < 8 {
		return nil, fmt.Errorf("%s: %d bytes: too short for a safetensors file", path, st.Size())
	}
	// NORESERVE: pages are almost never written to, so a model larger than memory need not be refused.
	const flags = syscall.MAP_PRIVATE | syscall.MAP_NORESERVE
	data, err := syscall.Mmap(int(f.Fd()), 0, int(st.Size()), syscall.PROT_READ|syscall.PROT_WRITE, flags)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return data, nil
}

// Names lists all tensors, sorted.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.tensors)) }

// Get returns a tensor, or nil if there is none of that name.
func (s *Set) Get(name string) *Tensor { return s.tensors[name] }

// Metadata is the header's free-form part; of several shards, merged.
func (s *Set) Metadata() map[string]string { return s.meta }

// Close unmaps the files. No Data may be touched afterwards.
func (s *Set) Close() error {
	var errs []error
	for _, m := range s.maps {
		errs = append(errs, syscall.Munmap(m))
	}
	s.maps, s.tensors = nil, nil
	return errors.Join(errs...)
}
