package safetensors

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Source is a tensor to be written. Write is called once, in the order of the file, so that only one tensor's bytes need
// to be in memory at a time; it must write exactly the bytes that DType and Shape say.
type Source struct {
	Name  string
	DType DType
	Shape []int
	Write func(w io.Writer) error
}

// Bytes is a Source whose bytes are at hand.
func Bytes(name string, d DType, shape []int, data []byte) Source {
	return Source{name, d, shape, func(w io.Writer) error { _, err := w.Write(data); return err }}
}

func (s *Source) size() int64 {
	n := int64(s.DType.Size())
	for _, d := range s.Shape {
		n *= int64(d)
	}
	return n
}

// Write writes one file: into a temporary name beside it, synced, then renamed, so that path is always the old file or
// the whole new one. The same sources give the same bytes. meta may be nil.
func Write(path string, meta map[string]string, sources []Source) (err error) {
	ordered, header, err := makeHeader(meta, sources)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return WriteAtomic(path, func(w io.Writer) error {
		if _, err := w.Write(header); err != nil {
			return err
		}
		for _, s := range ordered {
			c := &counter{w: w}
			if err := s.Write(c); err != nil {
				return fmt.Errorf("tensor %q: %w", s.Name, err)
			}
			if c.n != s.size() {
				return fmt.Errorf("tensor %q: %d bytes written, %s %v takes %d", s.Name, c.n, s.DType, s.Shape, s.size())
			}
		}
		return nil
	})
}

// makeHeader checks the sources and lays them out: wide elements first, so that every tensor is aligned, then by name.
func makeHeader(meta map[string]string, sources []Source) ([]Source, []byte, error) {
	ordered := slices.Clone(sources)
	slices.SortFunc(ordered, func(a, b Source) int {
		if a.DType.Size() != b.DType.Size() {
			return b.DType.Size() - a.DType.Size()
		}
		return strings.Compare(a.Name, b.Name)
	})
	type field struct {
		DType   DType    `json:"dtype"`
		Shape   []int    `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	var b strings.Builder
	put := func(key string, v any) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		k, _ := json.Marshal(key)
		val, _ := json.Marshal(v)
		b.Write(k)
		b.WriteByte(':')
		b.Write(val)
	}
	if len(meta) > 0 {
		put("__metadata__", meta)
	}
	at, seen := int64(0), map[string]bool{}
	for _, s := range ordered {
		if s.DType.Size() == 0 {
			return nil, nil, fmt.Errorf("tensor %q: dtype %q is unknown", s.Name, s.DType)
		}
		if seen[s.Name] || s.Name == "__metadata__" || s.Name == "" {
			return nil, nil, fmt.Errorf("tensor name %q is taken twice or not allowed", s.Name)
		}
		seen[s.Name] = true
		end := at + s.size()
		put(s.Name, field{s.DType, append([]int{}, s.Shape...), [2]int64{at, end}})
		at = end
	}
	text := "{" + b.String() + "}"
	text += strings.Repeat(" ", (8-len(text)%8)%8)
	return ordered, append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), nil
}

// WriteDir writes a model as Hugging Face does: model.safetensors if everything fits into maxShard bytes (0: no limit),
// else shards, filled in the order of sources, and an index, which is written last. A tensor larger than maxShard has a
// shard of its own. Weights of another layout already in dir are an error: loaders would take the wrong ones.
func WriteDir(dir string, sources []Source, maxShard int64) error {
	meta := map[string]string{"format": "pt"} // transformers refuses a file that does not say so
	var shards [][]Source
	total, size := int64(0), int64(0)
	for _, s := range sources {
		n := s.size()
		if len(shards) == 0 || (maxShard > 0 && size+n > maxShard && size > 0) {
			shards = append(shards, nil)
			size = 0
		}
		shards[len(shards)-1] = append(shards[len(shards)-1], s)
		size += n
		total += n
	}
	if len(shards) == 0 {
		return fmt.Errorf("write %s: no tensors", dir)
	}
	names := []string{SingleFile}
	if len(shards) > 1 {
		names = names[:0]
		for i := range shards {
			names = append(names, fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(shards)))
		}
	}
	if err := refuseOthers(dir, names); err != nil {
		return err
	}
	where := map[string]string{}
	for i, shard := range shards {
		for _, s := range shard {
			if where[s.Name] != "" {
				return fmt.Errorf("write %s: tensor %q occurs twice", dir, s.Name)
			}
			where[s.Name] = names[i]
		}
	}
	for i, shard := range shards {
		if err := Write(filepath.Join(dir, names[i]), meta, shard); err != nil {
			return err
		}
	}
	if len(shards) == 1 {
		return nil
	}
	index, err := json.MarshalIndent(map[string]any{"metadata": map[string]any{"total_size": total}, "weight_map": where}, "", "  ")
	if err != nil {
		return err
	}
	return WriteAtomic(filepath.Join(dir, IndexFile), func(w io.Writer) error {
		_, err := w.Write(append(index, '\n'))
		return err
	})
}

// refuseOthers fails if dir holds weights that are not about to be replaced.
func refuseOthers(dir string, names []string) error {
	have, err := filepath.Glob(filepath.Join(dir, "model*.safetensors"))
	if err != nil {
		return err
	}
	if len(names) == 1 {
		if _, err := os.Stat(filepath.Join(dir, IndexFile)); err == nil {
			have = append(have, IndexFile)
		}
	}
	for _, h := range have {
		if !slices.Contains(names, filepath.Base(h)) {
			return fmt.Errorf("write %s: %s is already there, from another model; choose an empty directory", dir, filepath.Base(h))
		}
	}
	return nil
}

// WriteAtomic writes path through a temporary file in the same directory, synced and then renamed: path is always the
// old file or the whole new one.
func WriteAtomic(path string, write func(io.Writer) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// Sources are a set's tensors as they are, in the order of their names.
func (s *Set) Sources() []Source {
	var out []Source
	for _, name := range slices.Sorted(maps.Keys(s.tensors)) {
		t := s.tensors[name]
		out = append(out, Bytes(name, t.DType, t.Shape, t.Data))
	}
	return out
}
