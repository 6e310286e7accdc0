package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"seadtrain/model/safetensors"
)

// KV is a metadata entry. Value is a string, bool, uint32, float32, []string, []int32 or []float32.
type KV struct {
	Key   string
	Value any
}

// Source is a tensor to be written, as Type. Rows gives rows lo to hi along the first axis in float32; it is called in
// order and for a bounded number of rows at a time.
type Source struct {
	Name  string
	Type  Type // F32, F16, BF16 or Q8_0
	Shape []int
	Rows  func(lo, hi int) ([]float32, error)
}

const (
	alignment  = 32
	chunkElems = 1 << 18 // elements per call of Rows, about
)

// Write writes a version-3 file, atomically. The same input gives the same bytes.
func Write(path string, meta []KV, sources []Source) error {
	head := []byte("GGUF")
	head = binary.LittleEndian.AppendUint32(head, 3)
	head = binary.LittleEndian.AppendUint64(head, uint64(len(sources)))
	head = binary.LittleEndian.AppendUint64(head, uint64(len(meta)))
	var err error
	for _, kv := range meta {
		if head, err = appendKV(head, kv); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	offset := uint64(0)
	for _, s := range sources {
		n, err := s.bytes()
		if err != nil {
			return fmt.Errorf("write %s: tensor %q: %w", path, s.Name, err)
		}
		head = appendString(head, s.Name)
		head = binary.LittleEndian.AppendUint32(head, uint32(len(s.Shape)))
		for _, d := range slices.Backward(s.Shape) {
			head = binary.LittleEndian.AppendUint64(head, uint64(d))
		}
		head = binary.LittleEndian.AppendUint32(head, uint32(s.Type))
		head = binary.LittleEndian.AppendUint64(head, offset)
		offset = pad(offset + n)
	}
	head = append(head, make([]byte, pad(uint64(len(head)))-uint64(len(head)))...)
	return safetensors.WriteAtomic(path, func(w io.Writer) error {
		if _, err := w.Write(head); err != nil {
			return err
		}
		for _, s := range sources {
			if err := s.write(w); err != nil {
				return fmt.Errorf("tensor %q: %w", s.Name, err)
			}
		}
		return nil
	})
}

func pad(n uint64) uint64 { return (n + alignment - 1) / alignment * alignment }

func (s *Source) bytes() (uint64, error) {
	switch s.Type {
	case F32, F16, BF16, Q8_0:
	default:
		return 0, fmt.Errorf("%s cannot be written: want F32, F16, BF16 or Q8_0", s.Type)
	}
	t := Tensor{Type: s.Type, Shape: s.Shape}
	return t.bytes()
}

// write writes the data and the padding behind it.
func (s *Source) write(w io.Writer) error {
	rows, cols := 1, 1
	if len(s.Shape) > 0 {
		rows = s.Shape[0]
	}
	for _, d := range s.Shape[min(1, len(s.Shape)):] {
		cols *= d
	}
	step := rows
	if len(s.Shape) > 1 { // a vector is one block row: not cut
		step = max(1, chunkElems/max(1, cols))
	}
	total := uint64(0)
	for lo := 0; lo < rows; lo += step {
		hi := min(rows, lo+step)
		v, err := s.Rows(lo, hi)
		if err != nil {
			return err
		}
		if len(v) != (hi-lo)*cols {
			return fmt.Errorf("rows %d to %d gave %d elements, want %d", lo, hi, len(v), (hi-lo)*cols)
		}
		b, err := encode(s.Type, v)
		if err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		total += uint64(len(b))
	}
	_, err := w.Write(make([]byte, pad(total)-total))
	return err
}

func encode(t Type, v []float32) ([]byte, error) {
	switch t {
	case Q8_0:
		return quantiseQ8_0(nil, v), nil
	case F16:
		return safetensors.AppendFloat32s(nil, safetensors.F16, v)
	case BF16:
		return safetensors.AppendFloat32s(nil, safetensors.BF16, v)
	}
	return safetensors.AppendFloat32s(nil, safetensors.F32, v)
}

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

func appendKV(b []byte, kv KV) ([]byte, error) {
	u32 := binary.LittleEndian.AppendUint32
	array := func(k kind, n int) {
		b = u32(b, uint32(kindArray))
		b = u32(b, uint32(k))
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	b = appendString(b, kv.Key)
	switch v := kv.Value.(type) {
	case string:
		b = appendString(u32(b, uint32(kindString)), v)
	case bool:
		b = u32(b, uint32(kindBool))
		if v {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	case uint32:
		b = u32(u32(b, uint32(kindU32)), v)
	case float32:
		b = u32(u32(b, uint32(kindF32)), math.Float32bits(v))
	case []string:
		array(kindString, len(v))
		for _, s := range v {
			b = appendString(b, s)
		}
	case []int32:
		array(kindI32, len(v))
		for _, x := range v {
			b = u32(b, uint32(x))
		}
	case []float32:
		array(kindF32, len(v))
		for _, x := range v {
			b = u32(b, math.Float32bits(x))
		}
	default:
		return nil, fmt.Errorf("metadata %q: a %T cannot be written", kv.Key, kv.Value)
	}
	return b, nil
}
