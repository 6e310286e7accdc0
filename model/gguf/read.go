package gguf

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"
)

const (
	maxKeys    = 1 << 16
	maxTensors = 1 << 20
	maxDims    = 4
	maxName    = 1 << 10
	maxArray   = 1 << 22 // elements; the largest vocabularies have 2^18
)

// File is an open GGUF file. It is valid until Close.
type File struct {
	Version int
	Tensors []*Tensor // in the order of the file

	path   string
	meta   map[string]any // uint64, int64, float64, bool, string, []int64, []float64, []bool, []string
	byName map[string]*Tensor
	data   []byte
}

// Tensor is one stored tensor. Data is the file's mapping.
type Tensor struct {
	Name  string
	Type  Type
	Shape []int // outermost axis first, as in Hugging Face
	Data  []byte

	file   string
	offset uint64
}

// Open maps a file and checks everything it claims.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open gguf: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() < 24 {
		return nil, fmt.Errorf("%s: not a GGUF file (too short, or no regular file)", path)
	}
	data, err := syscall.Mmap(int(f.Fd()), 0, int(st.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	g, err := parse(data)
	if err != nil {
		syscall.Munmap(data)
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	g.path, g.data = path, data
	for _, t := range g.Tensors {
		t.file = path
	}
	return g, nil
}

// Close unmaps the file.
func (f *File) Close() error { return syscall.Munmap(f.data) }

// Get returns a tensor by llama.cpp's name, or nil.
func (f *File) Get(name string) *Tensor { return f.byName[name] }

// cursor reads a file front to back; after an error every read gives zeros.
type cursor struct {
	data []byte
	at   int
	err  error
}

func (c *cursor) fail(format string, a ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, a...)
	}
}

func (c *cursor) left() uint64 { return uint64(len(c.data) - c.at) }

func (c *cursor) take(n uint64) []byte {
	if c.err == nil && n > c.left() {
		c.fail("the file ends within its header, at byte %d: truncated download?", c.at)
	}
	if c.err != nil {
		return make([]byte, min(n, 8))
	}
	b := c.data[c.at : c.at+int(n)]
	c.at += int(n)
	return b
}

func (c *cursor) u32() uint32 { return binary.LittleEndian.Uint32(c.take(4)) }
func (c *cursor) u64() uint64 { return binary.LittleEndian.Uint64(c.take(8)) }

func (c *cursor) str() string {
	n := c.u64()
	if c.err == nil && n > c.left() {
		c.fail("a string at byte %d claims %d bytes, %d are left", c.at, n, c.left())
	}
	if c.err != nil {
		return ""
	}
	return string(c.take(n))
}

// name is a key or tensor name: short and readable.
func (c *cursor) name(what string) string {
	s := c.str()
	if c.err == nil && (s == "" || len(s) > maxName || !utf8.ValidString(s) || strings.ContainsRune(s, 0)) {
		c.fail("%s %.40q at byte %d is empty, longer than %d bytes, or not text", what, s, c.at, maxName)
	}
	return s
}

// parse reads the header of a file.
func parse(data []byte) (*File, error) {
	c := &cursor{data: data}
	if magic := string(c.take(4)); magic != "GGUF" {
		return nil, fmt.Errorf("begins with %q, not with \"GGUF\": not a GGUF file", magic)
	}
	version := c.u32()
	switch {
	case version == 2 || version == 3:
	case version&0xffff == 0 && version != 0:
		return nil, errors.New("a big-endian GGUF file: not supported")
	default:
		return nil, fmt.Errorf("GGUF version %d: only 2 and 3 are supported", version)
	}
	nTensors, nKeys := c.u64(), c.u64()
	if c.err != nil {
		return nil, c.err
	}
	if nTensors > maxTensors || nKeys > maxKeys {
		return nil, fmt.Errorf("claims %d tensors and %d keys: the limits are %d and %d", nTensors, nKeys, maxTensors, maxKeys)
	}
	f := &File{Version: int(version), meta: map[string]any{}, byName: map[string]*Tensor{}}
	for range nKeys {
		key := c.name("key")
		v := c.value(kind(c.u32()))
		if c.err != nil {
			return nil, fmt.Errorf("metadata %q: %w", key, c.err)
		}
		if _, dup := f.meta[key]; dup {
			return nil, fmt.Errorf("metadata %q occurs twice", key)
		}
		f.meta[key] = v
	}
	for range nTensors {
		t, err := c.tensor()
		if err != nil {
			return nil, err
		}
		if f.byName[t.Name] != nil {
			return nil, fmt.Errorf("tensor %q occurs twice", t.Name)
		}
		f.byName[t.Name] = t
		f.Tensors = append(f.Tensors, t)
	}
	return f, f.place(data, uint64(c.at))
}

// value reads a metadata value. Integers become uint64 or int64, floats float64.
func (c *cursor) value(k kind) any {
	switch k {
	case kindU8:
		return uint64(c.take(1)[0])
	case kindI8:
		return int64(int8(c.take(1)[0]))
	case kindU16:
		return uint64(binary.LittleEndian.Uint16(c.take(2)))
	case kindI16:
		return int64(int16(binary.LittleEndian.Uint16(c.take(2))))
	case kindU32:
		return uint64(c.u32())
	case kindI32:
		return int64(int32(c.u32()))
	case kindU64:
		return c.u64()
	case kindI64:
		return int64(c.u64())
	case kindF32:
		return float64(math.Float32frombits(c.u32()))
	case kindF64:
		return math.Float64frombits(c.u64())
	case kindBool:
		b := c.take(1)[0]
		if b > 1 {
			c.fail("a bool is %d", b)
		}
		return b == 1
	case kindString:
		return c.str()
	case kindArray:
		return c.array(kind(c.u32()), c.u64())
	}
	c.fail("value type %d is unknown", k)
	return nil
}

// array reads n values of one kind. Every element takes at least one byte (a string eight), so n is bounded by the file.
func (c *cursor) array(k kind, n uint64) any {
	if k == kindArray {
		c.fail("arrays of arrays are not supported")
		return nil
	}
	least := uint64(1)
	if k == kindString {
		least = 8
	}
	if c.err == nil && (n > c.left()/least || n > maxArray) {
		c.fail("an array claims %d elements; %d bytes are left, and the limit is %d", n, c.left(), maxArray)
	}
	if c.err != nil {
		return nil
	}
	switch k {
	case kindString:
		return collect(c, k, n, func(v any) string { return v.(string) })
	case kindBool:
		return collect(c, k, n, func(v any) bool { return v.(bool) })
	case kindF32, kindF64:
		return collect(c, k, n, func(v any) float64 { return v.(float64) })
	}
	return collect(c, k, n, func(v any) int64 {
		switch v := v.(type) {
		case uint64:
			if v > math.MaxInt64 {
				c.fail("%d in an array does not fit 63 bits", v)
			}
			return int64(v)
		case int64:
			return v
		}
		return 0
	})
}

func collect[T any](c *cursor, k kind, n uint64, as func(any) T) []T {
	out := make([]T, 0, n)
	for range n {
		v := c.value(k)
		if c.err != nil {
			return nil
		}
		out = append(out, as(v))
	}
	return out
}

// tensor reads a tensor's description and checks its size.
func (c *cursor) tensor() (*Tensor, error) {
	t := &Tensor{Name: c.name("tensor name")}
	dims := c.u32()
	if c.err == nil && dims > maxDims {
		c.fail("%d axes, the limit is %d", dims, maxDims)
	}
	if c.err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, c.err)
	}
	for range dims {
		d := c.u64()
		if d > 1<<48 {
			c.fail("an axis of %d elements is impossible", d)
			break
		}
		t.Shape = append(t.Shape, int(d))
	}
	t.Type = Type(c.u32())
	t.offset = c.u64()
	if c.err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, c.err)
	}
	if _, ok := layouts[t.Type]; !ok {
		return nil, fmt.Errorf("tensor %q: element %s is unknown", t.Name, t.Type)
	}
	slices.Reverse(t.Shape)
	return t, nil
}

// rowSize is the number of elements of the innermost axis and their bytes.
func (t *Tensor) rowSize() (elements, bytes int) {
	l := layouts[t.Type]
	elements = 1
	if n := len(t.Shape); n > 0 {
		elements = t.Shape[n-1]
	}
	return elements, elements / l.block * l.bytes
}

// rows is the product of all but the innermost axis.
func (t *Tensor) rows() int {
	n := 1
	for _, d := range t.Shape[:max(0, len(t.Shape)-1)] {
		n *= d
	}
	return n
}

// place gives every tensor its bytes. They must be aligned, inside the file, and not overlap.
func (f *File) place(data []byte, headEnd uint64) error {
	align := uint64(32)
	if v, ok := f.meta["general.alignment"]; ok {
		a, ok := v.(uint64)
		if !ok || a == 0 || a > 1<<16 || a&(a-1) != 0 {
			return fmt.Errorf("metadata general.alignment is %v: want a power of two up to 65536", v)
		}
		align = a
	}
	start := (headEnd + align - 1) / align * align
	size := uint64(len(data))
	end := uint64(0)
	order := slices.Clone(f.Tensors)
	slices.SortStableFunc(order, func(a, b *Tensor) int { return cmp.Compare(a.offset, b.offset) })
	for _, t := range order {
		if t.offset%align != 0 {
			return fmt.Errorf("tensor %q is at offset %d, no multiple of the alignment %d", t.Name, t.offset, align)
		}
		if t.offset < end {
			return fmt.Errorf("tensor %q is at offset %d, inside the tensor before it, which ends at %d", t.Name, t.offset, end)
		}
		n, err := t.bytes()
		if err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if t.offset > size || start+t.offset > size || n > size-start-t.offset {
			return fmt.Errorf("tensor %q (%s %v, %d bytes at %d) ends beyond the file's %d bytes: truncated download?", t.Name, t.Type, t.Shape, n, start+t.offset, size)
		}
		lo := start + t.offset
		t.Data = data[lo : lo+n : lo+n]
		end = t.offset + n
	}
	return nil
}

// bytes is a tensor's size, computed without overflow.
func (t *Tensor) bytes() (uint64, error) {
	l := layouts[t.Type]
	cols, row := t.rowSize()
	if cols%l.block != 0 {
		return 0, fmt.Errorf("%s %v: the last axis is no multiple of the block of %d", t.Type, t.Shape, l.block)
	}
	n := uint64(row)
	for _, d := range t.Shape[:max(0, len(t.Shape)-1)] {
		if d > 0 && n > 1<<56/uint64(d) {
			return 0, fmt.Errorf("shape %v is impossible", t.Shape)
		}
		n *= uint64(d)
	}
	return n, nil
}

// Rows converts rows lo to hi to float32; a row is one line along the innermost axis. Shape: [hi-lo, columns].
func (t *Tensor) Rows(lo, hi int) ([]float32, error) {
	l := layouts[t.Type]
	if l.dequantise == nil {
		return nil, fmt.Errorf("%s: tensor %q is %s: want F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K or Q6_K", t.file, t.Name, t.Type)
	}
	if lo < 0 || hi < lo || hi > t.rows() {
		return nil, fmt.Errorf("%s: tensor %q %v: rows %d to %d do not exist", t.file, t.Name, t.Shape, lo, hi)
	}
	cols, row := t.rowSize()
	out := make([]float32, (hi-lo)*cols)
	l.dequantise(out, t.Data[lo*row:hi*row])
	return out, nil
}
