package torch

/*
#include "seadnative.h"
*/
import "C"

// WithGrad runs f with gradient recording on. The engine thread's default is off.
func WithGrad(f func()) {
	was := C.sn_grad_enabled()
	C.sn_set_grad_enabled(1)
	defer C.sn_set_grad_enabled(was)
	f()
}

// NoGrad runs f with gradient recording off.
func NoGrad(f func()) {
	was := C.sn_grad_enabled()
	C.sn_set_grad_enabled(0)
	defer C.sn_set_grad_enabled(was)
	f()
}

// RequireGrad marks a leaf.
func (t *Tensor) RequireGrad(on bool) *Tensor {
	check("requires_grad_", C.sn_requires_grad_(t.h, cbool(on)), t)
	return t
}

// Grad gives the gradients of Σ outs·gradOuts with respect to ins; the graph is freed. gradOuts may be nil for scalars.
// An input that outs do not depend on gives nil.
func Grad(outs, gradOuts, ins []*Tensor) []*Tensor {
	if gradOuts != nil {
		sameLen("grad", outs, gradOuts)
	}
	gs := make([]C.sn_tensor, len(ins)+1)
	check("grad", C.sn_grad(first(handles(outs)), first(handles(gradOuts)), C.int(len(outs)), first(handles(ins)), C.int(len(ins)), 1, &gs[0]), outs...)
	out := make([]*Tensor, len(ins))
	for i := range ins {
		if gs[i] != nil {
			out[i] = own(gs[i])
		}
	}
	return out
}
