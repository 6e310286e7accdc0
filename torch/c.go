package torch

/*
#cgo CFLAGS: -I${SRCDIR}/../native
#cgo LDFLAGS: -L${SRCDIR}/../build/native -lseadnative -Wl,-rpath,${SRCDIR}/../build/native
#cgo LDFLAGS: -L${SRCDIR}/../third_party/tokenizers
#include "seadnative.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"
)

// Code classifies an Error; the values are those of sn_status.
type Code int

const (
	CodeShape       Code = C.SN_ERROR // operands that do not fit each other, in shape or dtype
	CodeIndex       Code = C.SN_INDEX
	CodeValue       Code = C.SN_VALUE
	CodeType        Code = C.SN_TYPE
	CodeUnsupported Code = C.SN_UNSUPPORTED
	CodeOutOfMemory Code = C.SN_OUT_OF_MEMORY
	CodeDist        Code = C.SN_DIST
	CodeStd         Code = C.SN_STD
	CodeUnknown     Code = C.SN_UNKNOWN
)

// Error is a failed tensor operation.
type Error struct {
	Op     string
	Shapes [][]int64 // of the operands; of the result, if it has none
	Code   Code
	Msg    string // libtorch's own message, one line
}

func (e *Error) Error() string {
	if len(e.Shapes) == 0 {
		return fmt.Sprintf("torch.%s: %s", e.Op, e.Msg)
	}
	s := make([]string, len(e.Shapes))
	for i, sh := range e.Shapes {
		s[i] = fmt.Sprint(sh)
	}
	return fmt.Sprintf("torch.%s(%s): %s", e.Op, strings.Join(s, ", "), e.Msg)
}

// check panics with an Error if the call failed.
func check(op string, st C.sn_status, operands ...*Tensor) {
	if st.code == C.SN_OK {
		return
	}
	var shapes [][]int64
	for _, t := range operands {
		if t != nil && t.h != nil {
			shapes = append(shapes, t.Shape())
		}
	}
	fail(op, st, shapes)
}

// checkNew is check for a factory, which has no operands: the error names the shape that was asked for.
func checkNew(op string, st C.sn_status, shape ...int64) {
	if st.code != C.SN_OK {
		fail(op, st, [][]int64{slices.Clone(shape)}) // a copy, or every shape would escape to the heap
	}
}

func fail(op string, st C.sn_status, shapes [][]int64) {
	e := &Error{Op: op, Shapes: shapes, Code: Code(st.code), Msg: "no message: memory is out"}
	if st.msg != nil {
		e.Msg = oneLine(C.GoString(st.msg))
		C.sn_free_text(st.msg)
	}
	panic(e)
}

// sameLen panics unless the lists go in parallel.
func sameLen(op string, first []*Tensor, others ...[]*Tensor) {
	for _, l := range others {
		if len(l) != len(first) {
			panic(&Error{Op: op, Code: CodeShape, Msg: fmt.Sprintf("a list of %d tensors beside one of %d", len(l), len(first))})
		}
	}
}

func oneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}

func dims(s []int64) (*C.int64_t, C.int) {
	if len(s) == 0 {
		return nil, 0
	}
	return (*C.int64_t)(unsafe.Pointer(&s[0])), C.int(len(s))
}

func first[T any](s []T) *T {
	if len(s) == 0 {
		return nil
	}
	return &s[0]
}
