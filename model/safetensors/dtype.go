package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"
)

// DType is an element type by its name in the file.
type DType string

const (
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
	F64  DType = "F64"
	I64  DType = "I64"
	I32  DType = "I32"
	I16  DType = "I16"
	I8   DType = "I8"
	U8   DType = "U8"
	Bool DType = "BOOL"
)

// sizes in bytes. The wider list of the format is known so that a file holding such a tensor is not called broken.
var sizes = map[DType]int{
	F64: 8, I64: 8, "U64": 8, "C64": 8, F32: 4, I32: 4, "U32": 4, F16: 2, BF16: 2, I16: 2, "U16": 2,
	I8: 1, U8: 1, Bool: 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
}

// Size is the number of bytes of one element; 0 for an unknown type.
func (d DType) Size() int { return sizes[d] }

// Float32s converts elements of type F32, F16 or BF16 (little-endian bytes) to float32. All three fit exactly.
func Float32s(d DType, data []byte) ([]float32, error) {
	size := d.Size()
	if size == 0 || len(data)%size != 0 {
		return nil, fmt.Errorf("%d bytes are not a whole number of %s elements", len(data), d)
	}
	out := make([]float32, len(data)/size)
	switch d {
	case F32:
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
	case BF16:
		for i := range out {
			out[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(data[2*i:])) << 16)
		}
	case F16:
		for i := range out {
			out[i] = HalfToFloat32(binary.LittleEndian.Uint16(data[2*i:]))
		}
	default:
		return nil, fmt.Errorf("dtype %s is not a floating-point type of a checkpoint: want F32, F16 or BF16", d)
	}
	return out, nil
}

// AppendFloat32s appends v to dst as elements of type F32, F16 or BF16, rounded to nearest, ties to even. A finite value
// that would become an infinity in F16 is an error: no checkpoint means that.
func AppendFloat32s(dst []byte, d DType, v []float32) ([]byte, error) {
	switch d {
	case F32:
		for _, x := range v {
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(x))
		}
	case BF16:
		for _, x := range v {
			dst = binary.LittleEndian.AppendUint16(dst, float32ToBF16(x))
		}
	case F16:
		for _, x := range v {
			h := Float32ToHalf(x)
			if h&0x7fff == 0x7c00 && !math.IsInf(float64(x), 0) {
				return dst, fmt.Errorf("%v is beyond the range of F16: use BF16 or F32", x)
			}
			dst = binary.LittleEndian.AppendUint16(dst, h)
		}
	default:
		return dst, fmt.Errorf("dtype %s is not a floating-point type of a checkpoint: want F32, F16 or BF16", d)
	}
	return dst, nil
}

func float32ToBF16(x float32) uint16 {
	b := math.Float32bits(x)
	if x != x {
		return uint16(b>>16) | 0x40 // stays a NaN whatever is cut off
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// HalfToFloat32 converts an IEEE 754 binary16.
func HalfToFloat32(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&1023)
	switch exp {
	case 0: // zero or subnormal: frac × 2^-24, exact in float32
		f := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(sign | math.Float32bits(f))
	case 31:
		return math.Float32frombits(sign | 0xff<<23 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// Float32ToHalf rounds to the nearest binary16, ties to even.
func Float32ToHalf(x float32) uint16 {
	b := math.Float32bits(x)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000: // NaN
		return sign | 0x7e00 | uint16(b>>13&0x3ff)
	case b >= 0x47800000: // 65536 and more, and infinity; 65520 to 65535 round up below
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14: a multiple of 2^-24
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(b))*(1<<24)))
	}
	b += 0xfff + b>>13&1
	return sign | uint16((b-0x38000000)>>13)
}
