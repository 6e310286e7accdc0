package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"
)

// maxHeader is the reference implementation's own limit.
const maxHeader = 100_000_000

// maxRank is far above any checkpoint's; it bounds what a hostile header can make us print.
const maxRank = 16

// entry is one tensor as the header declares it.
type entry struct {
	name       string
	dtype      DType
	shape      []int
	begin, end int64 // within the data, after the header
}

// parseHeader checks the head of a file of the given size. It returns the entries in the order of their bytes, the
// free-form metadata, and where the data begins.
func parseHeader(file []byte) (entries []entry, meta map[string]string, dataStart int64, err error) {
	size := int64(len(file))
	if size < 8 {
		return nil, nil, 0, fmt.Errorf("%d bytes: too short for a safetensors file", size)
	}
	n := binary.LittleEndian.Uint64(file)
	if n > maxHeader {
		return nil, nil, 0, fmt.Errorf("the header claims %d bytes, the limit is %d: not a safetensors file?", n, maxHeader)
	}
	if int64(n) > size-8 {
		return nil, nil, 0, fmt.Errorf("the header claims %d bytes, the file has %d: truncated download?", n, size)
	}
	head := file[8 : 8+n]
	if len(head) == 0 || head[0] != '{' {
		return nil, nil, 0, errors.New("the header does not begin with '{': not a safetensors file?")
	}
	if !utf8.Valid(head) {
		return nil, nil, 0, errors.New("the header is not valid UTF-8")
	}
	entries, meta, err = decodeHeader(head)
	if err != nil {
		return nil, nil, 0, err
	}
	return entries, meta, 8 + int64(n), checkLayout(entries, size-8-int64(n))
}

// decodeHeader reads the JSON key by key: encoding/json's maps would hide a name that occurs twice.
func decodeHeader(head []byte) (entries []entry, meta map[string]string, err error) {
	dec := json.NewDecoder(bytes.NewReader(head))
	if _, err := dec.Token(); err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	seen := map[string]bool{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, nil, fmt.Errorf("header: %w", err)
		}
		name := tok.(string) // the decoder only yields strings as keys
		if seen[name] {
			return nil, nil, fmt.Errorf("tensor %q occurs twice in the header", name)
		}
		seen[name] = true
		if name == "__metadata__" {
			if err := dec.Decode(&meta); err != nil {
				return nil, nil, fmt.Errorf("__metadata__: want strings only: %w", err)
			}
			continue
		}
		e, err := decodeEntry(dec, name)
		if err != nil {
			return nil, nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		entries = append(entries, e)
	}
	if _, err := dec.Token(); err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, nil, errors.New("header: something follows the JSON object")
	}
	return entries, meta, nil
}

func decodeEntry(dec *json.Decoder, name string) (entry, error) {
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return entry{}, err
	}
	var f struct {
		DType   *string  `json:"dtype"`
		Shape   *[]int64 `json:"shape"`
		Offsets *[]int64 `json:"data_offsets"`
	}
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&f); err != nil {
		return entry{}, err
	}
	if f.DType == nil || f.Shape == nil || f.Offsets == nil {
		return entry{}, errors.New("want dtype, shape and data_offsets")
	}
	e := entry{name: name, dtype: DType(*f.DType)}
	if e.dtype.Size() == 0 {
		return entry{}, fmt.Errorf("dtype %q is unknown", e.dtype)
	}
	if len(*f.Shape) > maxRank {
		return entry{}, fmt.Errorf("%d axes, the limit is %d", len(*f.Shape), maxRank)
	}
	const limit = int64(1) << 56 // in bytes: keeps every product below in an int64
	size := int64(e.dtype.Size())
	for _, d := range *f.Shape {
		if d < 0 || d > limit || (d > 0 && size > limit/d) {
			return entry{}, fmt.Errorf("shape %v is impossible", *f.Shape)
		}
		size *= d
		e.shape = append(e.shape, int(d))
	}
	if o := *f.Offsets; len(o) != 2 || o[0] < 0 || o[1] < o[0] {
		return entry{}, fmt.Errorf("data_offsets %v: want [begin, end]", o)
	} else if o[1]-o[0] != size {
		return entry{}, fmt.Errorf("data_offsets %v hold %d bytes, but %s %v takes %d", o, o[1]-o[0], e.dtype, *f.Shape, size)
	} else {
		e.begin, e.end = o[0], o[1]
	}
	return e, nil
}

// checkLayout sorts the entries by their place and demands that they cover the data exactly: no gap, no overlap.
func checkLayout(entries []entry, dataSize int64) error {
	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	at := int64(0)
	for _, e := range entries {
		if e.begin < at {
			return fmt.Errorf("tensor %q begins at %d, inside the tensor before it, which ends at %d", e.name, e.begin, at)
		}
		if e.begin > at {
			return fmt.Errorf("%d bytes before tensor %q belong to no tensor", e.begin-at, e.name)
		}
		if e.end > dataSize {
			return fmt.Errorf("tensor %q ends at %d, the file's data at %d: truncated download?", e.name, e.end, dataSize)
		}
		at = e.end
	}
	if at != dataSize {
		return fmt.Errorf("%d bytes at the end belong to no tensor", dataSize-at)
	}
	return nil
}
