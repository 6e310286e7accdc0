package gguf

import "fmt"

// Type is an element format of tensors, by llama.cpp's number.
type Type uint32

const (
	F32  Type = 0
	F16  Type = 1
	Q4_0 Type = 2
	Q4_1 Type = 3
	Q8_0 Type = 8
	Q4_K Type = 12
	Q6_K Type = 14
	BF16 Type = 30
)

// layout of a format: elements per block, bytes per block.
type layout struct {
	name         string
	block, bytes int
	dequantise   func(dst []float32, src []byte) // nil: known, not supported
}

// layouts of all formats that are common in model files; those without dequantise are refused by name.
var layouts = map[Type]layout{
	F32: {"F32", 1, 4, dequantF32}, F16: {"F16", 1, 2, dequantF16}, BF16: {"BF16", 1, 2, dequantBF16},
	Q8_0: {"Q8_0", 32, 34, dequantQ8_0}, Q4_0: {"Q4_0", 32, 18, dequantQ4_0}, Q4_1: {"Q4_1", 32, 20, dequantQ4_1},
	Q4_K: {"Q4_K", 256, 144, dequantQ4_K}, Q6_K: {"Q6_K", 256, 210, dequantQ6_K},
	6: {"Q5_0", 32, 22, nil}, 7: {"Q5_1", 32, 24, nil}, 9: {"Q8_1", 32, 36, nil},
	10: {"Q2_K", 256, 84, nil}, 11: {"Q3_K", 256, 110, nil}, 13: {"Q5_K", 256, 176, nil}, 15: {"Q8_K", 256, 292, nil},
	16: {"IQ2_XXS", 256, 66, nil}, 17: {"IQ2_XS", 256, 74, nil}, 18: {"IQ3_XXS", 256, 98, nil}, 19: {"IQ1_S", 256, 50, nil},
	20: {"IQ4_NL", 32, 18, nil}, 21: {"IQ3_S", 256, 110, nil}, 22: {"IQ2_S", 256, 82, nil}, 23: {"IQ4_XS", 256, 136, nil},
	24: {"I8", 1, 1, nil}, 25: {"I16", 1, 2, nil}, 26: {"I32", 1, 4, nil}, 27: {"I64", 1, 8, nil}, 28: {"F64", 1, 8, nil},
}

func (t Type) String() string {
	if l, ok := layouts[t]; ok {
		return l.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// kind is the type of a metadata value, by its number in the file.
type kind uint32

const (
	kindU8 kind = iota
	kindI8
	kindU16
	kindI16
	kindU32
	kindI32
	kindF32
	kindBool
	kindString
	kindArray
	kindU64
	kindI64
	kindF64
)
