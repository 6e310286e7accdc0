package safetensors

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// file puts a header in front of n data bytes 0, 1, 2, …
func file(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	for i := range n {
		b = append(b, byte(i))
	}
	return b
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpenRefuses(t *testing.T) {
	const a = `"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}`
	long := binary.LittleEndian.AppendUint64(nil, 1<<40)
	for _, tc := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "too short"},
		{"seven bytes", make([]byte, 7), "too short"},
		{"giant header", append(long, "{}"...), "the limit is 100000000"},
		{"header beyond the file", file(`{}`, 0)[:9], "truncated download"},
		{"no header", file("", 0), "does not begin with '{'"},
		{"a zip", file("PK\x03\x04", 0), "does not begin with '{'"},
		{"not UTF-8", file("{\"\xff\":1}", 0), "not valid UTF-8"},
		{"half a header", file(`{`+a, 8), "header"},
		{"text after it", file(`{`+a+`} x`, 8), "header"},
		{"twice", file(`{`+a+`,`+a+`}`, 8), `"a" occurs twice`},
		{"dtype", file(`{"a":{"dtype":"F3","shape":[2],"data_offsets":[0,8]}}`, 8), `dtype "F3" is unknown`},
		{"no shape", file(`{"a":{"dtype":"F32","data_offsets":[0,8]}}`, 8), "want dtype, shape and data_offsets"},
		{"unknown key", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}}`, 8), "unknown field"},
		{"negative axis", file(`{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}`, 8), "impossible"},
		{"overflow", file(`{"a":{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,8]}}`, 8), "impossible"},
		{"rank", file(`{"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}}`, 1), "17 axes"},
		{"size", file(`{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}`, 8), "hold 8 bytes, but F32 [3] takes 12"},
		{"offsets", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}`, 8), "want [begin, end]"},
		{"three offsets", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,9]}}`, 8), "want [begin, end]"},
		{"overlap", file(`{`+a+`,"b":{"dtype":"U8","shape":[8],"data_offsets":[4,12]}}`, 12), `"b" begins at 4, inside`},
		{"gap", file(`{`+a+`,"b":{"dtype":"U8","shape":[1],"data_offsets":[9,10]}}`, 10), `1 bytes before tensor "b"`},
		{"short", file(`{`+a+`}`, 7), "ends at 8, the file's data at 7"},
		{"rest", file(`{`+a+`}`, 9), "1 bytes at the end"},
		{"metadata", file(`{"__metadata__":{"a":1}}`, 0), "want strings only"},
	} {
		path := write(t, "x.safetensors", tc.data)
		_, err := Open(path)
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want %q and the path", tc.name, err, tc.want)
		}
	}
}

func TestOpenReads(t *testing.T) {
	// A scalar (8 bytes), an empty tensor and a matrix, out of order in the header, with padding after it.
	h := `{"m":{"dtype":"BF16","shape":[2,3],"data_offsets":[8,20]},"s":{"dtype":"I64","shape":[],"data_offsets":[0,8]},` +
		`"e":{"dtype":"F32","shape":[0,5],"data_offsets":[8,8]},"__metadata__":{"format":"pt"}}   `
	s, err := Open(write(t, "x.safetensors", file(h, 20)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := s.Names(); !slices.Equal(got, []string{"e", "m", "s"}) || s.Metadata()["format"] != "pt" {
		t.Fatalf("names %v, metadata %v", got, s.Metadata())
	}
	m := s.Get("m")
	if m.Len() != 6 || s.Get("s").Len() != 1 || s.Get("e").Len() != 0 || s.Get("none") != nil {
		t.Error("element counts are wrong")
	}
	// m's bytes are 8..19, two per element, so row 1 is bytes 14..19 and column 1 bytes 10, 11 and 16, 17.
	if row, err := m.Rows(1, 2); err != nil || !slices.Equal(row, []byte{14, 15, 16, 17, 18, 19}) {
		t.Errorf("row 1: %v %v", row, err)
	}
	if col, err := m.Cols(1, 2); err != nil || !slices.Equal(col, []byte{10, 11, 16, 17}) {
		t.Errorf("column 1: %v %v", col, err)
	}
	for _, r := range [][2]int{{-1, 1}, {1, 3}, {2, 1}} {
		if _, err := m.Rows(r[0], r[1]); err == nil {
			t.Errorf("rows %v of 2: no error", r)
		}
	}
	if _, err := m.Cols(0, 4); err == nil || !strings.Contains(err.Error(), `tensor "m"`) {
		t.Errorf("columns 0..4 of 3: %v", err)
	}
	if _, err := s.Get("s").Rows(0, 1); err == nil {
		t.Error("rows of a scalar: no error")
	}
	if r, err := s.Get("e").Rows(0, 0); err != nil || len(r) != 0 {
		t.Errorf("no rows of an empty tensor: %v %v", r, err)
	}
}

// Written bytes stay in memory: the file is never changed through the mapping.
func TestMappingIsCopyOnWrite(t *testing.T) {
	data := file(`{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}`, 3)
	path := write(t, "x.safetensors", data)
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Get("a").Data[0] = 99
	if now, _ := os.ReadFile(path); !slices.Equal(now, data) {
		t.Error("the file has changed")
	}
}

func TestOpenReadsHuggingFacesFiles(t *testing.T) {
	dirs, _ := filepath.Glob("../testdata/tiny/*/config.json")
	if len(dirs) != 6 {
		t.Fatalf("%d tiny models, want 6", len(dirs))
	}
	for _, d := range dirs {
		s, err := Open(filepath.Dir(d))
		if err != nil {
			t.Fatal(err)
		}
		e := s.Get("model.embed_tokens.weight")
		if e == nil || e.DType != F32 || !slices.Equal(e.Shape, []int{96, 32}) {
			t.Errorf("%s: embedding %v", d, e)
		}
		if n := len(s.maps); strings.Contains(d, "llama_untied") != (n == 3) {
			t.Errorf("%s: %d files", d, n)
		}
		s.Close()
	}
}

func TestIndexAndShardsMustAgree(t *testing.T) {
	a := file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1)
	b := file(`{"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1)
	for _, tc := range []struct{ name, index, want string }{
		{"good", `{"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}`, ""},
		{"empty", `{"weight_map":{}}`, "missing or empty"},
		{"not JSON", `{`, "unexpected end"},
		{"outside", `{"weight_map":{"a":"../1.safetensors"}}`, "not the name of a file"},
		{"missing shard", `{"weight_map":{"a":"1.safetensors","b":"3.safetensors"}}`, "3.safetensors"},
		{"missing tensor", `{"weight_map":{"a":"1.safetensors","b":"2.safetensors","c":"2.safetensors"}}`, `"c" is listed for 2.safetensors, which does not have it`},
		{"wrong shard", `{"weight_map":{"a":"2.safetensors","b":"2.safetensors"}}`, `"a" is listed for 2.safetensors, which does not have it`},
		{"swapped", `{"weight_map":{"a":"2.safetensors","b":"1.safetensors"}}`, "but is in"},
		{"unlisted", `{"weight_map":{"a":"1.safetensors","z":"4.safetensors"}}`, `"y" of`},
		{"double", `{"weight_map":{"a":"1.safetensors","b":"5.safetensors"}}`, `"a" is also in`},
	} {
		dir := t.TempDir()
		for name, data := range map[string][]byte{
			"1.safetensors": a, "2.safetensors": b, IndexFile: []byte(tc.index),
			"4.safetensors": file(`{"y":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"z":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2),
			"5.safetensors": file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2),
		} {
			os.WriteFile(filepath.Join(dir, name), data, 0o644)
		}
		s, err := Open(dir)
		if tc.want == "" {
			if err != nil || len(s.Names()) != 2 {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), IndexFile) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestOpenSaysWhatIsThereInstead(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "pytorch_model.bin"), nil, 0o644)
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "pytorch_model.bin is PyTorch's pickle format") {
		t.Errorf("got %v", err)
	}
	if _, err := Open(filepath.Join(dir, "none")); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("got %v", err)
	}
}

// Whatever the bytes are, parseHeader returns an error or a layout that lies inside the file.
func FuzzParseHeader(f *testing.F) {
	f.Add(file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{"format":"pt"}}`, 8))
	f.Add(file(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}`, 1))
	f.Add(file(`{"a":{"dtype":"F32","shape":[9223372036854775807,2],"data_offsets":[0,8]}}`, 8))
	f.Add(file(`{"\u0061":{},"a":{}}`, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, _, start, err := parseHeader(data)
		if err != nil {
			return
		}
		at := int64(0)
		for _, e := range entries {
			n := int64(e.dtype.Size())
			for _, d := range e.shape {
				n *= int64(d)
			}
			if e.begin != at || e.end-e.begin != n {
				t.Fatalf("%+v begins not at %d or is not %d bytes", e, at, n)
			}
			at = e.end
		}
		if start+at != int64(len(data)) {
			t.Fatalf("tensors end at %d of %d", start+at, len(data))
		}
	})
}
