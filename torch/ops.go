package torch

/*
#include "seadnative.h"
*/
import "C"

// Names and meanings are PyTorch's. Methods ending in InPlace change their receiver and return it.

const (
	opAdd, opSub, opMul, opDiv, opMatmul, opMaximum, opMinimum, opEq = 0, 1, 2, 3, 4, 5, 6, 7
	opAddS, opMulS, opPowS, opClampMin, opClampMax                   = 0, 2, 3, 4, 5
	opNeg, opExp, opLog, opSilu, opRsqrt, opAbs, opClone, opDetach   = 0, 1, 2, 3, 4, 5, 6, 7
	opContiguous, opSquare, opSigmoid, opSqrt, opIsNaN               = 8, 9, 10, 11, 12
	opSum, opMean, opMax, opArgmax, opLogsumexp, opSoftmax, opLogSM  = 0, 1, 2, 3, 4, 5, 6
)

func binary(name string, op int, a, b *Tensor) *Tensor {
	var h C.sn_tensor
	check(name, C.sn_binary(C.int(op), a.h, b.h, &h), a, b)
	return own(h)
}

func scalar(name string, op int, a *Tensor, s float64) *Tensor {
	var h C.sn_tensor
	check(name, C.sn_scalar(C.int(op), a.h, C.double(s), &h), a)
	return own(h)
}

func unary(name string, op int, a *Tensor) *Tensor {
	var h C.sn_tensor
	check(name, C.sn_unary(C.int(op), a.h, &h), a)
	return own(h)
}

func reduce(name string, op int, a *Tensor, dim int, keep bool) *Tensor {
	var h C.sn_tensor
	check(name, C.sn_reduce(C.int(op), a.h, C.int(dim), cbool(keep), &h), a)
	return own(h)
}

func cbool(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

func (t *Tensor) Add(o *Tensor) *Tensor     { return binary("add", opAdd, t, o) }
func (t *Tensor) Sub(o *Tensor) *Tensor     { return binary("sub", opSub, t, o) }
func (t *Tensor) Mul(o *Tensor) *Tensor     { return binary("mul", opMul, t, o) }
func (t *Tensor) Div(o *Tensor) *Tensor     { return binary("div", opDiv, t, o) }
func (t *Tensor) Matmul(o *Tensor) *Tensor  { return binary("matmul", opMatmul, t, o) }
func (t *Tensor) Maximum(o *Tensor) *Tensor { return binary("maximum", opMaximum, t, o) }
func (t *Tensor) Minimum(o *Tensor) *Tensor { return binary("minimum", opMinimum, t, o) }
func (t *Tensor) Eq(o *Tensor) *Tensor      { return binary("eq", opEq, t, o) }

func (t *Tensor) AddScalar(s float64) *Tensor { return scalar("add_scalar", opAddS, t, s) }
func (t *Tensor) MulScalar(s float64) *Tensor { return scalar("mul_scalar", opMulS, t, s) }
func (t *Tensor) Pow(s float64) *Tensor       { return scalar("pow", opPowS, t, s) }
func (t *Tensor) ClampMin(s float64) *Tensor  { return scalar("clamp_min", opClampMin, t, s) }
func (t *Tensor) ClampMax(s float64) *Tensor  { return scalar("clamp_max", opClampMax, t, s) }

func (t *Tensor) Neg() *Tensor        { return unary("neg", opNeg, t) }
func (t *Tensor) Exp() *Tensor        { return unary("exp", opExp, t) }
func (t *Tensor) Log() *Tensor        { return unary("log", opLog, t) }
func (t *Tensor) Silu() *Tensor       { return unary("silu", opSilu, t) }
func (t *Tensor) Rsqrt() *Tensor      { return unary("rsqrt", opRsqrt, t) }
func (t *Tensor) Abs() *Tensor        { return unary("abs", opAbs, t) }
func (t *Tensor) Clone() *Tensor      { return unary("clone", opClone, t) }
func (t *Tensor) Detach() *Tensor     { return unary("detach", opDetach, t) }
func (t *Tensor) Contiguous() *Tensor { return unary("contiguous", opContiguous, t) }
func (t *Tensor) Square() *Tensor     { return unary("square", opSquare, t) }
func (t *Tensor) Sigmoid() *Tensor    { return unary("sigmoid", opSigmoid, t) }
func (t *Tensor) Sqrt() *Tensor       { return unary("sqrt", opSqrt, t) }
func (t *Tensor) IsNaN() *Tensor      { return unary("isnan", opIsNaN, t) }

func (t *Tensor) Sum(dim int, keep bool) *Tensor  { return reduce("sum", opSum, t, dim, keep) }
func (t *Tensor) Mean(dim int, keep bool) *Tensor { return reduce("mean", opMean, t, dim, keep) }
func (t *Tensor) Max(dim int, keep bool) *Tensor  { return reduce("amax", opMax, t, dim, keep) }
func (t *Tensor) Argmax(dim int) *Tensor          { return reduce("argmax", opArgmax, t, dim, false) }
func (t *Tensor) LogSumExp(dim int, keep bool) *Tensor {
	return reduce("logsumexp", opLogsumexp, t, dim, keep)
}
func (t *Tensor) Softmax(dim int) *Tensor    { return reduce("softmax", opSoftmax, t, dim, false) }
func (t *Tensor) LogSoftmax(dim int) *Tensor { return reduce("log_softmax", opLogSM, t, dim, false) }

// SumAll adds all elements into a scalar.
func (t *Tensor) SumAll() *Tensor {
	var h C.sn_tensor
	check("sum", C.sn_sum_all(t.h, &h), t)
	return own(h)
}

// AllFinite reports whether no element is NaN or Inf.
func (t *Tensor) AllFinite() bool {
	var ok C.int
	check("all_finite", C.sn_all_finite(t.h, &ok), t)
	return ok != 0
}

// Linear is x·wᵀ + bias; x [n, in], w [out, in], bias [out] or nil. In fp32 on the CPU no row's bits depend on the other
// rows. Differentiable.
func Linear(x, w, bias *Tensor) *Tensor {
	var h C.sn_tensor
	check("linear", C.sn_linear(x.h, w.h, handle(bias), &h), x, w, bias)
	return own(h)
}

// PanelSize is the number of outputs that PackRows lays side by side.
const PanelSize = C.SN_PANEL

// PackRows gives w [out, in] in panels [⌈out/PanelSize⌉, in, PanelSize] of its type, the form that LinearPacked reads.
func PackRows(w *Tensor) *Tensor {
	var h C.sn_tensor
	check("pack_rows", C.sn_pack_rows(w.h, &h), w)
	return own(h)
}

// LinearPacked is Linear with packed weights in fp32, with the same bits, in bf16, or in int8 with scale [out] in fp32 (else
// nil). x is in fp32 on the CPU. Not differentiable.
func LinearPacked(x, panels *Tensor, out int64, scale, bias *Tensor) *Tensor {
	var h C.sn_tensor
	check("linear_packed", C.sn_linear_packed(x.h, panels.h, C.int64_t(out), handle(scale), handle(bias), &h), x, panels, scale, bias)
	return own(h)
}

// QuantizeRows gives w [out, in] as int8 multiples of one scale per row, max|w|/127: no weight is off by more than half a
// scale. A row of zeros has scale 0.
func QuantizeRows(w *Tensor) (q, scale *Tensor) {
	var h, s C.sn_tensor
	check("quantize_rows", C.sn_quantize_rows(w.h, &h, &s), w)
	return own(h), own(s)
}

// MatmulInto makes out = beta·out + a·b, with a or b transposed on demand. All are two-dimensional.
func MatmulInto(out *Tensor, beta float64, a *Tensor, ta bool, b *Tensor, tb bool) {
	check("addmm_", C.sn_matmul_out(a.h, cbool(ta), b.h, cbool(tb), out.h, C.double(beta)), a, b, out)
}

// AddInPlace is t += alpha·o.
func (t *Tensor) AddInPlace(o *Tensor, alpha float64) *Tensor {
	check("add_", C.sn_add_(t.h, o.h, C.double(alpha)), t, o)
	return t
}

func (t *Tensor) MulInPlace(o *Tensor) *Tensor {
	check("mul_", C.sn_mul_(t.h, o.h), t, o)
	return t
}

func (t *Tensor) MulScalarInPlace(s float64) *Tensor {
	check("mul_", C.sn_mul_scalar_(t.h, C.double(s)), t)
	return t
}

func (t *Tensor) ZeroInPlace() *Tensor {
	check("zero_", C.sn_zero_(t.h), t)
	return t
}

func (t *Tensor) FillInPlace(v float64) *Tensor {
	check("fill_", C.sn_fill_(t.h, C.double(v)), t)
	return t
}

// CopyInPlace copies src into t, converting its dtype.
func (t *Tensor) CopyInPlace(src *Tensor) *Tensor {
	check("copy_", C.sn_copy_(t.h, src.h), t, src)
	return t
}

// To converts; it shares memory when nothing changes.
func (t *Tensor) To(dt DType, dev Device) *Tensor {
	var h C.sn_tensor
	check("to", C.sn_to(t.h, C.int(dt), C.int(dev), &h), t)
	return own(h)
}

// Reshape gives a view where it can. One size may be -1.
func (t *Tensor) Reshape(shape ...int64) *Tensor {
	var h C.sn_tensor
	p, n := dims(shape)
	check("reshape", C.sn_reshape(t.h, p, n, &h), t)
	return own(h)
}

func (t *Tensor) Transpose(a, b int) *Tensor {
	var h C.sn_tensor
	check("transpose", C.sn_transpose(t.h, C.int(a), C.int(b), &h), t)
	return own(h)
}

// Narrow is a view of length n from start along dim.
func (t *Tensor) Narrow(dim int, start, n int64) *Tensor {
	var h C.sn_tensor
	check("narrow", C.sn_narrow(t.h, C.int(dim), C.int64_t(start), C.int64_t(n), &h), t)
	return own(h)
}

// Split cuts t along dim into views of these sizes. Its gradient is one concatenation; that of a Narrow is a tensor of
// t's whole size.
func (t *Tensor) Split(dim int, sizes ...int64) []*Tensor {
	hs := make([]C.sn_tensor, len(sizes))
	p, n := dims(sizes)
	check("split", C.sn_split(t.h, p, n, C.int(dim), first(hs)), t)
	out := make([]*Tensor, len(hs))
	for i, h := range hs {
		out[i] = own(h)
	}
	return out
}

func Cat(dim int, ts ...*Tensor) *Tensor {
	var h C.sn_tensor
	check("cat", C.sn_cat(first(handles(ts)), C.int(len(ts)), C.int(dim), &h), ts...)
	return own(h)
}

// IndexSelect takes rows (or columns, by dim) in the order of index.
func (t *Tensor) IndexSelect(dim int, index *Tensor) *Tensor {
	var h C.sn_tensor
	check("index_select", C.sn_index_select(t.h, C.int(dim), index.h, &h), t, index)
	return own(h)
}

// IndexAddInPlace adds the rows of src to the rows of t that index names.
func (t *Tensor) IndexAddInPlace(dim int, index, src *Tensor) *Tensor {
	check("index_add_", C.sn_index_add_(t.h, C.int(dim), index.h, src.h), t, index, src)
	return t
}

// EmbeddingBackward adds up the rows of grad [n, c] by id into [vocab, c].
func EmbeddingBackward(grad, ids *Tensor, vocab int64) *Tensor {
	var h C.sn_tensor
	check("embedding_backward", C.sn_embedding_backward(grad.h, ids.h, C.int64_t(vocab), &h), grad, ids)
	return own(h)
}

func (t *Tensor) Gather(dim int, index *Tensor) *Tensor {
	var h C.sn_tensor
	check("gather", C.sn_gather(t.h, C.int(dim), index.h, &h), t, index)
	return own(h)
}

func (t *Tensor) MaskedFill(mask *Tensor, v float64) *Tensor {
	var h C.sn_tensor
	check("masked_fill", C.sn_masked_fill(t.h, mask.h, C.double(v), &h), t, mask)
	return own(h)
}

// SDPA is scaled dot-product attention; q, k, v [batch, heads, length, d]. causal is aligned to the top left.
func SDPA(q, k, v, mask *Tensor, causal bool, scale float64) *Tensor {
	var h C.sn_tensor
	gqa := q.Dim(1) != k.Dim(1)
	check("sdpa", C.sn_sdpa(q.h, k.h, v.h, handle(mask), cbool(causal), C.double(scale), cbool(gqa), &h), q, k, v, mask)
	return own(h)
}
