package safetensors

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"
)

func TestHalfByTable(t *testing.T) {
	for _, tc := range []struct {
		h uint16
		f float32
	}{
		{0x0000, 0}, {0x3c00, 1}, {0xc000, -2}, {0x7bff, 65504}, {0x0400, 1.0 / (1 << 14)}, // smallest normal 2^-14
		{0x0001, 1.0 / (1 << 24)}, {0x03ff, 1023.0 / (1 << 24)}, {0x3555, 0.333251953125}, // 1365/4096
		{0x7c00, float32(math.Inf(1))}, {0xfc00, float32(math.Inf(-1))},
	} {
		if got := HalfToFloat32(tc.h); got != tc.f {
			t.Errorf("%#04x: %v, want %v", tc.h, got, tc.f)
		}
	}
	// Every half survives the way to float32 and back.
	for h := range 1 << 16 {
		f := HalfToFloat32(uint16(h))
		if got := Float32ToHalf(f); got != uint16(h) && f == f {
			t.Fatalf("%#04x became %v became %#04x", h, f, got)
		}
	}
	if f := HalfToFloat32(0x7e01); f == f {
		t.Error("a NaN became a number")
	}
}

func TestRounding(t *testing.T) {
	for _, tc := range []struct {
		f          float32
		half, bf16 uint16
	}{
		{1 + 1.0/2048, 0x3c00, 0x3f80},        // half: halfway, ties to even (down); bf16: far below half a step of 1/128
		{1 + 3.0/2048, 0x3c02, 0x3f80},        // half: halfway, ties to even (up)
		{1 + 1.0/256, 0x3c04, 0x3f80},         // bf16: halfway between 1 and 1+1/128, ties to even
		{1 + 3.0/256, 0x3c0c, 0x3f82},         // bf16: halfway, up to even
		{65519, 0x7bff, 0x4780},               // below half a step above 65504
		{65520, 0x7c00, 0x4780},               // half a step: becomes infinity
		{1e30, 0x7c00, 0x714a},                // 1e30 = 0x7149f2ca: rounds up
		{1.0 / (1 << 25), 0x0000, 0x3300},     // half of the smallest: to even, zero
		{3.0 / (1 << 25), 0x0002, 0x33c0},     // 1.5 steps: to even, two
		{-2047.5 / (1 << 25), 0x8400, 0xb880}, // 1023.75 steps: rounds up into the normals
		{float32(math.Inf(-1)), 0xfc00, 0xff80}, {0, 0, 0},
	} {
		if got := Float32ToHalf(tc.f); got != tc.half {
			t.Errorf("%v as half: %#04x, want %#04x", tc.f, got, tc.half)
		}
		if got := float32ToBF16(tc.f); got != tc.bf16 {
			t.Errorf("%v as bf16: %#04x, want %#04x", tc.f, got, tc.bf16)
		}
	}
	nan := math.Float32frombits(0x7f800001) // cutting off the low half would make it an infinity
	if h := Float32ToHalf(nan); h&0x7c00 != 0x7c00 || h&0x3ff == 0 {
		t.Errorf("NaN as half: %#04x", h)
	}
	if h := float32ToBF16(nan); h&0x7f80 != 0x7f80 || h&0x7f == 0 {
		t.Errorf("NaN as bf16: %#04x", h)
	}
}

func TestFloat32s(t *testing.T) {
	want := []float32{1, -2.5, 0.15625}
	for _, d := range []DType{F32, F16, BF16} {
		b, err := AppendFloat32s(nil, d, want)
		if err != nil || len(b) != 3*d.Size() {
			t.Fatal(d, len(b), err)
		}
		got, err := Float32s(d, b)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v %v", d, got, err)
		}
	}
	if _, err := Float32s(I64, binary.LittleEndian.AppendUint64(nil, 1)); err == nil {
		t.Error("I64 as floats: no error")
	}
	if _, err := Float32s(F32, make([]byte, 5)); err == nil {
		t.Error("five bytes of F32: no error")
	}
	if _, err := AppendFloat32s(nil, F16, []float32{65520}); err == nil {
		t.Error("65520 as F16: no error")
	}
	if _, err := AppendFloat32s(nil, U8, want); err == nil {
		t.Error("floats as U8: no error")
	}
}
