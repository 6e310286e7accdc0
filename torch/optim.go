package torch

/*
#include "seadnative.h"
*/
import "C"

// AdamW holds the numbers of one step of Loshchilov & Hutter 2019, as PyTorch's fused AdamW computes it.
type AdamW struct {
	LR, Beta1, Beta2, Eps, WeightDecay float64
}

// Step updates params in place from grads; m and v are the moments; step counts from 1. All lists go in parallel and are
// of one dtype.
func (a AdamW) Step(params, grads, m, v []*Tensor, step int64) {
	sameLen("adamw_", params, grads, m, v)
	check("adamw_", C.sn_adamw_(first(handles(params)), first(handles(grads)), first(handles(m)), first(handles(v)), C.int(len(params)),
		C.int64_t(step), C.double(a.LR), C.double(a.Beta1), C.double(a.Beta2), C.double(a.Eps), C.double(a.WeightDecay)))
}

// CopyAll copies src[i] into dst[i], converting dtypes.
func CopyAll(dst, src []*Tensor) {
	sameLen("foreach_copy_", dst, src)
	if len(dst) > 0 {
		check("foreach_copy_", C.sn_foreach_copy_(first(handles(dst)), first(handles(src)), C.int(len(dst))))
	}
}

// ScaleAll multiplies every tensor by s in place.
func ScaleAll(ts []*Tensor, s float64) {
	if len(ts) > 0 {
		check("foreach_mul_", C.sn_foreach_mul_(first(handles(ts)), C.int(len(ts)), C.double(s)))
	}
}

// SumSquares is Σ x² over all elements of all tensors, in double, in the order of the list.
func SumSquares(ts []*Tensor) float64 {
	var s C.double
	if len(ts) > 0 {
		check("sum_squares", C.sn_sum_squares(first(handles(ts)), C.int(len(ts)), &s))
	}
	return float64(s)
}
