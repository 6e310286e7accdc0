package torch

/*
#include "seadnative.h"
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// DType is a tensor's element type.
type DType int

const (
	F32  DType = C.SN_F32
	F64  DType = C.SN_F64
	BF16 DType = C.SN_BF16
	F16  DType = C.SN_F16
	I64  DType = C.SN_I64
	I32  DType = C.SN_I32
	U8   DType = C.SN_U8
	Bool DType = C.SN_BOOL
	I8   DType = C.SN_I8
)

// Size is the number of bytes of one element.
func (d DType) Size() int {
	switch d {
	case F64, I64:
		return 8
	case F32, I32:
		return 4
	case BF16, F16:
		return 2
	}
	return 1
}

func (d DType) String() string {
	return [...]string{"F32", "F64", "BF16", "F16", "I64", "I32", "U8", "BOOL", "I8"}[d]
}

// Device says where a tensor's memory is. Meta tensors have a shape and no memory.
type Device int

const (
	CPU  Device = C.SN_CPU
	CUDA Device = C.SN_CUDA
	Meta Device = C.SN_META
)

func (d Device) String() string { return [...]string{"cpu", "cuda", "meta"}[d] }

// Tensor is a handle of a libtorch tensor. It belongs to a scope (see the package comment) or is kept.
type Tensor struct {
	h     C.sn_tensor
	scope *scope
	kept  *kept // where it was kept, while leaks are looked for
}

// own wraps a fresh handle and joins it to the innermost scope.
func own(h C.sn_tensor) *Tensor {
	t := &Tensor{h: h}
	if len(scopes) == 0 {
		C.sn_free(h)
		panic("torch: tensor work outside torch.Do")
	}
	adopt(t)
	return t
}

// at gives the handle to a call that cannot fail by itself, and so must not get a freed one.
func (t *Tensor) at(op string) C.sn_tensor {
	if t.h == nil {
		panic(&Error{Op: op, Code: CodeValue, Msg: "use of a tensor that was freed"})
	}
	return t.h
}

func handles(ts []*Tensor) []C.sn_tensor {
	hs := make([]C.sn_tensor, len(ts))
	for i, t := range ts {
		hs[i] = t.h
	}
	return hs
}

func handle(t *Tensor) C.sn_tensor {
	if t == nil {
		return nil
	}
	return t.h
}

// Empty allocates without initialising.
func Empty(dt DType, dev Device, shape ...int64) *Tensor {
	var h C.sn_tensor
	p, n := dims(shape)
	checkNew("empty", C.sn_empty(p, n, C.int(dt), C.int(dev), &h), shape...)
	return own(h)
}

// Full fills with one value.
func Full(value float64, dt DType, dev Device, shape ...int64) *Tensor {
	var h C.sn_tensor
	p, n := dims(shape)
	checkNew("full", C.sn_full(p, n, C.double(value), C.int(dt), C.int(dev), &h), shape...)
	return own(h)
}

// Zeros fills with zero.
func Zeros(dt DType, dev Device, shape ...int64) *Tensor { return Full(0, dt, dev, shape...) }

// Arange is 0, 1, … n-1.
func Arange(n int64, dt DType, dev Device) *Tensor {
	var h C.sn_tensor
	checkNew("arange", C.sn_arange(C.int64_t(n), C.int(dt), C.int(dev), &h), n)
	return own(h)
}

// Randn draws from the standard normal distribution. The numbers depend on seed and shape alone, not on dtype or device.
func Randn(seed uint64, dt DType, dev Device, shape ...int64) *Tensor {
	var h C.sn_tensor
	p, n := dims(shape)
	checkNew("randn", C.sn_randn(p, n, C.uint64_t(seed), C.int(dt), C.int(dev), &h), shape...)
	return own(h)
}

// Element is a Go type with a tensor element type of the same layout.
type Element interface {
	~float32 | ~float64 | ~int64 | ~int32 | ~uint8 | ~int8
}

func dtypeOf[T Element]() DType {
	var z T
	switch any(z).(type) {
	case float32:
		return F32
	case float64:
		return F64
	case int64:
		return I64
	case int32:
		return I32
	case int8:
		return I8
	}
	return U8
}

// Of copies a Go slice into a CPU tensor. Without a shape it is one-dimensional.
func Of[T Element](data []T, shape ...int64) *Tensor {
	if len(shape) == 0 {
		shape = []int64{int64(len(data))}
	}
	var z T
	return FromBytes(unsafe.Pointer(unsafe.SliceData(data)), len(data)*int(unsafe.Sizeof(z)), dtypeOf[T](), shape...)
}

// FromBytes copies n bytes at p into a CPU tensor.
func FromBytes(p unsafe.Pointer, n int, dt DType, shape ...int64) *Tensor {
	var h C.sn_tensor
	sp, sn := dims(shape)
	checkNew("from_host", C.sn_from_host(p, C.size_t(n), sp, sn, C.int(dt), &h), shape...)
	return own(h)
}

// Borrow makes a CPU tensor over foreign memory without copying: it must stay mapped, and unmoved, as long as the tensor
// or a view of it lives. For mmapped weights that are copied or converted at once.
func Borrow(p unsafe.Pointer, dt DType, shape ...int64) *Tensor {
	var h C.sn_tensor
	sp, sn := dims(shape)
	checkNew("from_blob", C.sn_from_blob(p, sp, sn, C.int(dt), &h), shape...)
	return own(h)
}

// Data copies the elements out, converting to T's dtype.
func Data[T Element](t *Tensor) []T {
	src := t
	if dt := dtypeOf[T](); t.DType() != dt {
		src = t.To(dt, CPU)
	}
	out := make([]T, t.Numel())
	var z T
	check("to_host", C.sn_to_host(src.h, unsafe.Pointer(unsafe.SliceData(out)), C.size_t(len(out)*int(unsafe.Sizeof(z)))), src)
	return out
}

// CopyTo copies the elements, as they are, into host memory of exactly their size.
func (t *Tensor) CopyTo(buf []byte) {
	check("to_host", C.sn_to_host(t.h, unsafe.Pointer(unsafe.SliceData(buf)), C.size_t(len(buf))), t)
}

// Bytes is the tensor's own memory; valid while the tensor lives. It must be contiguous and on the CPU.
func (t *Tensor) Bytes() []byte {
	if t.Device() != CPU || C.sn_is_contiguous(t.h) == 0 {
		panic(&Error{Op: "bytes", Shapes: [][]int64{t.Shape()}, Code: CodeValue, Msg: "only contiguous CPU tensors have bytes to share"})
	}
	n := int(t.Numel()) * t.DType().Size()
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(C.sn_data_ptr(t.h)), n)
}

// Item is the value of a one-element tensor.
func (t *Tensor) Item() float64 {
	var v C.double
	check("item", C.sn_item(t.h, &v), t)
	return float64(v)
}

// Shape is the list of sizes.
func (t *Tensor) Shape() []int64 {
	s := make([]int64, int(C.sn_ndim(t.at("shape"))))
	if len(s) > 0 {
		C.sn_shape(t.h, (*C.int64_t)(unsafe.Pointer(&s[0])))
	}
	return s
}

// Dim is the size of one dimension; negative ones count from the end.
func (t *Tensor) Dim(i int) int64 {
	s := t.Shape()
	if i < 0 {
		i += len(s)
	}
	return s[i]
}

func (t *Tensor) Numel() int64   { return int64(C.sn_numel(t.at("numel"))) }
func (t *Tensor) DType() DType   { return DType(C.sn_dtype(t.at("dtype"))) }
func (t *Tensor) Device() Device { return Device(C.sn_device(t.at("device"))) }

func (t *Tensor) String() string {
	if t == nil || t.h == nil {
		return "tensor(freed)"
	}
	return fmt.Sprintf("tensor(%s %v %s)", t.DType(), t.Shape(), t.Device())
}
