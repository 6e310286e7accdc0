package gguf

import (
	"encoding/binary"
	"math"

	"seadtrain/model/safetensors"
)

// The formats, in llama.cpp's layout. d, m and dmin are half floats; q are the stored integers. len(dst) is a whole
// number of blocks and src holds exactly these blocks. The conversions float32(…) forbid the compiler to fuse a multiply
// and an add, so that results are the same on every processor.

func half(b []byte) float32 { return safetensors.HalfToFloat32(binary.LittleEndian.Uint16(b)) }

func dequantF32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func dequantF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = half(src[2*i:])
	}
}

func dequantBF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
	}
}

// dequantQ8_0: 32 elements as d and 32 int8; x = d·q.
func dequantQ8_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[34:] {
		d := half(src)
		for i, q := range src[2:34] {
			dst[i] = d * float32(int8(q))
		}
	}
}

// dequantQ4_0: 32 elements as d and 16 bytes, elements 0–15 in the low halves, 16–31 in the high ones; x = d·(q−8).
func dequantQ4_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[18:] {
		d := half(src)
		for i, q := range src[2:18] {
			dst[i] = d * float32(int(q&15)-8)
			dst[i+16] = d * float32(int(q>>4)-8)
		}
	}
}

// dequantQ4_1: as Q4_0 with a minimum; x = d·q + m.
func dequantQ4_1(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[32:], src[20:] {
		d, m := half(src), half(src[2:])
		for i, q := range src[4:20] {
			dst[i] = float32(d*float32(q&15)) + m
			dst[i+16] = float32(d*float32(q>>4)) + m
		}
	}
}

// dequantQ4_K: 256 elements as d, dmin, eight 6-bit scales and eight 6-bit minima in 12 bytes, and 128 bytes of 4-bit q.
// Each run of 32 bytes holds two groups of 32, low halves first; x = (d·scale)·q − dmin·min.
func dequantQ4_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[256:], src[144:] {
		d, dmin := half(src), half(src[2:])
		scales, qs := src[4:16], src[16:144]
		for g := range 4 {
			d1, m1 := scaleMin(scales, 2*g)
			d2, m2 := scaleMin(scales, 2*g+1)
			s1, o1 := d*float32(d1), dmin*float32(m1)
			s2, o2 := d*float32(d2), dmin*float32(m2)
			out := dst[64*g : 64*g+64]
			for i, q := range qs[32*g : 32*g+32] {
				out[i] = float32(s1*float32(q&15)) - o1
				out[i+32] = float32(s2*float32(q>>4)) - o2
			}
		}
	}
}

// scaleMin unpacks the j-th scale and minimum: the first four are the low 6 bits of bytes 0–3 and 4–7; the others have
// their low 4 bits in bytes 8–11 and their high 2 bits on top of the former.
func scaleMin(b []byte, j int) (scale, minimum byte) {
	if j < 4 {
		return b[j] & 63, b[j+4] & 63
	}
	return b[j+4]&15 | b[j-4]>>6<<4, b[j+4]>>4 | b[j]>>6<<4
}

// dequantQ6_K: 256 elements as 128 bytes of low 4 bits, 64 bytes of high 2 bits, 16 int8 scales, d; x = (d·scale)·(q−32).
func dequantQ6_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[256:], src[210:] {
		d := half(src[208:])
		for n := range 2 { // 128 elements each
			ql, qh, scales, out := src[64*n:64*n+64], src[128+32*n:160+32*n], src[192+8*n:200+8*n], dst[128*n:128*n+128]
			for l := range 32 {
				h := qh[l]
				for k, low := range [4]byte{ql[l] & 15, ql[l+32] & 15, ql[l] >> 4, ql[l+32] >> 4} {
					q := int(low|h>>(2*k)&3<<4) - 32
					out[32*k+l] = float32(d*float32(int8(scales[2*k+l/16]))) * float32(q)
				}
			}
		}
	}
}

// quantiseQ8_0 appends the blocks of v, 32 elements each: d is the largest magnitude / 127, stored as a half; q is
// rounded to nearest, halves away from zero, as llama.cpp does.
func quantiseQ8_0(dst []byte, v []float32) []byte {
	for ; len(v) > 0; v = v[32:] {
		top := float32(0)
		for _, x := range v[:32] {
			top = max(top, float32(math.Abs(float64(x))))
		}
		d := top / 127
		inv := float32(0)
		if d != 0 {
			inv = 1 / d
		}
		dst = binary.LittleEndian.AppendUint16(dst, safetensors.Float32ToHalf(d))
		for _, x := range v[:32] {
			dst = append(dst, byte(int8(math.Round(float64(x*inv)))))
		}
	}
	return dst
}
