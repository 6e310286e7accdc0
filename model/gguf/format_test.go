package gguf

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// b builds a file by hand.
type b []byte

func (x b) u32(v ...uint32) b {
	for _, v := range v {
		x = binary.LittleEndian.AppendUint32(x, v)
	}
	return x
}

func (x b) u64(v ...uint64) b {
	for _, v := range v {
		x = binary.LittleEndian.AppendUint64(x, v)
	}
	return x
}

func (x b) str(s string) b { return append(x.u64(uint64(len(s))), s...) }

// fill pads to the alignment and adds n data bytes.
func (x b) fill(n int) b {
	for len(x)%32 != 0 {
		x = append(x, 0)
	}
	return append(x, make([]byte, n)...)
}

func head(version uint32, tensors, keys uint64) b { return b("GGUF").u32(version).u64(tensors, keys) }

func f32(x b, name string, offset uint64, dims ...uint64) b {
	return x.str(name).u32(uint32(len(dims))).u64(dims...).u32(0).u64(offset)
}

func TestParseRefuses(t *testing.T) {
	kv := func(k uint32) b { return head(3, 0, 1).str("key").u32(k) }
	for _, tc := range []struct {
		name string
		data b
		want string
	}{
		{"magic", b("GGML").u32(3).u64(0, 0), `begins with "GGML"`},
		{"version 1", head(1, 0, 0), "GGUF version 1"},
		{"big-endian", b("GGUF").u32(3<<24).u64(0, 0), "big-endian"},
		{"counts", head(3, 1<<40, 0), "claims 1099511627776 tensors"},
		{"cut in the counts", head(3, 0, 0)[:12], "truncated"},
		{"cut in a key", head(3, 0, 1).u64(100), "claims 100 bytes, 0 are left"},
		{"string of 2^63 bytes", kv(8).u64(1 << 63), "claims 9223372036854775808 bytes"},
		{"empty key", head(3, 0, 1).str("").u32(4).u32(1), "is empty"},
		{"long key", head(3, 0, 1).str(strings.Repeat("k", 2000)).u32(4).u32(1), "longer than 1024"},
		{"value type", kv(99), "value type 99"},
		{"bool of 2", append(kv(7), 2), "a bool is 2"},
		{"array of 2^60", kv(9).u32(4).u64(1 << 60), "an array claims 1152921504606846976 elements"},
		{"array of too many strings", kv(9).u32(8).u64(3).u64(0, 0), "an array claims 3 elements"},
		{"nested array", kv(9).u32(9).u64(1), "arrays of arrays"},
		{"key twice", head(3, 0, 2).str("k").u32(4).u32(1).str("k").u32(4).u32(1), `"k" occurs twice`},
		{"axes", head(3, 1, 0).str("x").u32(5), "5 axes"},
		{"giant axis", f32(head(3, 1, 0), "x", 0, 1<<60), "impossible"},
		{"product", f32(head(3, 1, 0), "x", 0, 1<<20, 1<<20, 1<<20, 1<<20), "impossible"},
		{"element type", head(3, 1, 0).str("x").u32(1).u64(1).u32(77).u64(0), "element type 77 is unknown"},
		{"tensor twice", f32(f32(head(3, 2, 0), "x", 0, 8), "x", 32, 8).fill(64), `"x" occurs twice`},
		{"unaligned", f32(head(3, 1, 0), "x", 4, 8).fill(64), "no multiple of the alignment 32"},
		{"overlap", f32(f32(head(3, 2, 0), "x", 0, 9), "y", 32, 8).fill(96), `"y" is at offset 32, inside`},
		{"beyond the end", f32(head(3, 1, 0), "x", 0, 9).fill(32), "ends beyond"},
		{"offset of 2^63", f32(head(3, 1, 0), "x", 1<<63, 8).fill(32), "ends beyond"},
		{"block", head(3, 1, 0).str("x").u32(1).u64(33).u32(8).u64(0).fill(64), "no multiple of the block of 32"},
		{"alignment", head(3, 0, 1).str("general.alignment").u32(4).u32(24), "want a power of two"},
	} {
		if _, err := parse(tc.data); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
	path := filepath.Join(t.TempDir(), "x.gguf")
	os.WriteFile(path, head(1, 0, 0), 0o644)
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want the path", err)
	}
	os.WriteFile(path, []byte("GGUF"), 0o644)
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "too short") {
		t.Errorf("four bytes: %v", err)
	}
}

func TestParseReadsEveryKind(t *testing.T) {
	x := head(2, 1, 13)
	x = append(x.str("u8").u32(0), 200)
	x = append(x.str("i8").u32(1), 0xff)
	x = append(x.str("u16").u32(2), 1, 2)
	x = append(x.str("i16").u32(3), 0xfe, 0xff)
	x = x.str("u32").u32(4).u32(7)
	x = x.str("i32").u32(5).u32(0xffffffff)
	x = x.str("f32").u32(6).u32(0x3fc00000)
	x = append(x.str("bool").u32(7), 1)
	x = x.str("str").u32(8).str("text")
	x = x.str("arr").u32(9).u32(5).u64(2).u32(1, 0xffffffff)
	x = x.str("u64").u32(10).u64(1 << 40)
	x = x.str("i64").u32(11).u64(0xffffffffffffffff)
	x = x.str("f64").u32(12).u64(0x3ff8000000000000)
	f, err := parse(f32(x, "m", 0, 2, 3).fill(24))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"u8": uint64(200), "i8": int64(-1), "u16": uint64(0x201), "i16": int64(-2), "u32": uint64(7), "i32": int64(-1),
		"f32": 1.5, "bool": true, "str": "text", "u64": uint64(1 << 40), "i64": int64(-1), "f64": 1.5} {
		if f.meta[key] != want {
			t.Errorf("%s is %v, want %v", key, f.meta[key], want)
		}
	}
	if a, ok := f.meta["arr"].([]int64); !ok || !slices.Equal(a, []int64{1, -1}) {
		t.Errorf("array %v", f.meta["arr"])
	}
	if m := f.Get("m"); f.Version != 2 || !slices.Equal(m.Shape, []int{3, 2}) || len(m.Data) != 24 {
		t.Errorf("tensor %+v", m)
	}
}

func TestWriteThenOpen(t *testing.T) {
	meta := []KV{{"general.architecture", "llama"}, {"a.bool", true}, {"a.float", float32(0.5)}, {"a.list", []string{"x", ""}},
		{"a.ints", []int32{-1, 5}}, {"a.floats", []float32{0.25}}}
	value := func(lo, n int) []float32 {
		out := make([]float32, n)
		for i := range out {
			out[i] = float32(lo*64+i%127) - 63
		}
		return out
	}
	rows := func(cols int) func(lo, hi int) ([]float32, error) {
		return func(lo, hi int) ([]float32, error) { return value(lo, (hi-lo)*cols), nil }
	}
	sources := []Source{
		{"f32", F32, []int{3, 5}, rows(5)}, {"f16", F16, []int{7}, rows(1)}, {"bf16", BF16, []int{2, 64}, rows(64)},
		{"q8", Q8_0, []int{2, 64}, rows(64)}, {"big", F32, []int{1000, 1024}, func(lo, hi int) ([]float32, error) { // several pieces
			if hi-lo > 300 {
				t.Errorf("rows %d to %d in one piece", lo, hi)
			}
			out := make([]float32, 0, (hi-lo)*1024)
			for r := lo; r < hi; r++ {
				out = append(out, value(r, 1024)...)
			}
			return out, nil
		}},
	}
	path := filepath.Join(t.TempDir(), "x.gguf")
	if err := Write(path, meta, sources); err != nil {
		t.Fatal(err)
	}
	first, _ := os.ReadFile(path)
	f := open(t, path)
	if f.meta["a.bool"] != true || f.meta["a.float"] != 0.5 || !slices.Equal(f.meta["a.list"].([]string), []string{"x", ""}) ||
		!slices.Equal(f.meta["a.ints"].([]int64), []int64{-1, 5}) || !slices.Equal(f.meta["a.floats"].([]float64), []float64{0.25}) {
		t.Errorf("metadata %v", f.meta)
	}
	for _, s := range sources {
		got, err := f.Get(s.Name).Rows(0, f.Get(s.Name).rows())
		if err != nil {
			t.Fatal(s.Name, err)
		}
		var want []float32
		for r := range s.Shape[0] {
			v, _ := s.Rows(r, r+1)
			want = append(want, v...)
		}
		if s.Name == "f16" || s.Name == "f32" || s.Name == "bf16" || s.Name == "q8" {
			want, _ = s.Rows(0, s.Shape[0])
		}
		tol := float32(0)
		if s.Type == Q8_0 {
			tol = 64 * 0.5 / 127 * 1.01 // half a step; the largest magnitude is 64 or 63
		}
		for i := range want {
			if d := got[i] - want[i]; !(d <= tol && d >= -tol) {
				t.Fatalf("%s: element %d is %v, want %v", s.Name, i, got[i], want[i])
			}
		}
	}
	if err := Write(path, meta, sources); err != nil {
		t.Fatal(err)
	}
	if second, _ := os.ReadFile(path); !slices.Equal(first, second) {
		t.Error("the same input gave other bytes")
	}
}

func TestWriteRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.gguf")
	some := func(n int, err error) func(int, int) ([]float32, error) {
		return func(int, int) ([]float32, error) { return make([]float32, n), err }
	}
	for _, tc := range []struct {
		name    string
		meta    []KV
		sources []Source
		want    string
	}{
		{"metadata", []KV{{"k", 1.5}}, nil, `metadata "k": a float64 cannot be written`},
		{"format", nil, []Source{{"x", Q4_K, []int{1, 256}, some(256, nil)}}, "Q4_K cannot be written"},
		{"block", nil, []Source{{"x", Q8_0, []int{1, 33}, some(33, nil)}}, "no multiple of the block of 32"},
		{"short", nil, []Source{{"x", F32, []int{1, 4}, some(3, nil)}}, "gave 3 elements, want 4"},
		{"failing", nil, []Source{{"x", F32, []int{1, 4}, some(4, errors.New("gone"))}}, `tensor "x": gone`},
	} {
		if err := Write(path, tc.meta, tc.sources); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: a file was left", tc.name)
		}
	}
}

// Whatever the bytes are, parse returns an error or tensors that lie inside the file, and reading them is safe.
func FuzzParse(f *testing.F) {
	f.Add([]byte(f32(head(3, 1, 1).str("general.architecture").u32(8).str("llama"), "blk.0.attn_q.weight", 0, 4, 8).fill(128)))
	f.Add([]byte(head(3, 1, 0).str("x").u32(2).u64(32, 2).u32(8).u64(0).fill(68)))
	f.Add([]byte(head(2, 0, 2).str("a").u32(9).u32(8).u64(1).str("s").str("general.alignment").u32(4).u32(64)))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := parse(data)
		if err != nil {
			return
		}
		g.ConfigJSON()
		g.TokenizerJSON()
		g.TokenizerConfigJSON()
		for _, x := range g.Tensors {
			if n, err := x.bytes(); err != nil || uint64(len(x.Data)) != n {
				t.Fatalf("%+v: %d bytes, want %d (%v)", x, len(x.Data), n, err)
			}
			if layouts[x.Type].dequantise != nil && x.rows() > 0 && len(x.Data) > 0 {
				if _, err := x.Rows(0, 1); err != nil {
					t.Fatal(err)
				}
			}
		}
		if weights, err := g.Weights(); err == nil {
			for _, w := range weights {
				if len(w.Shape) > 0 && w.Shape[0] > 0 && len(w.t.Data) > 0 {
					if _, err := w.Rows(0, 1); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	})
}
