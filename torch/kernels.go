package torch

/*
#include "seadnative.h"
*/
import "C"

import "fmt"

// BlockSize is the number of tokens of one block of the paged KV cache.
const BlockSize = C.SN_BLOCK

// RMSNorm is x·rsqrt(mean(x²) + eps)·w over the last dimension; x [n, c], w [c]. Differentiable.
func RMSNorm(x, w *Tensor, eps float64) *Tensor {
	var h C.sn_tensor
	check("rms_norm", C.sn_rms_norm(x.h, w.h, C.double(eps), &h), x, w)
	return own(h)
}

// AddRMSNormInPlace adds y to x and gives RMSNorm of that, with the same bits; both are [n, c]. Not differentiable.
func AddRMSNormInPlace(x, y, w *Tensor, eps float64) *Tensor {
	var h C.sn_tensor
	check("add_rms_norm", C.sn_add_rms_norm(x.h, y.h, w.h, C.double(eps), &h), x, y, w)
	return own(h)
}

// Rope rotates the pairs (i, i+d/2) of every head of x [n, h, d] by the angles of its row's position: cos and sin
// [positions, d/2], pos [n] int64. Differentiable in x.
func Rope(x, cos, sin, pos *Tensor) *Tensor {
	var h C.sn_tensor
	check("rope", C.sn_rope(x.h, cos.h, sin.h, pos.h, &h), x, cos, pos)
	return own(h)
}

// SwiGLU is silu(gate)·up of gateUp [n, 2f], gate first. Differentiable.
func SwiGLU(gateUp *Tensor) *Tensor {
	var h C.sn_tensor
	check("swiglu", C.sn_swiglu(gateUp.h, &h), gateUp)
	return own(h)
}

// PackedAttention is causal attention within each of several sequences laid one after another. q [n, h, d], k and v
// [n, k, d]; cu holds the sequences' offsets, from 0 to n. Differentiable.
func PackedAttention(q, k, v *Tensor, cu []int64, scale float64) *Tensor {
	var h C.sn_tensor
	p, n := dims(cu)
	check("packed_attention", C.sn_packed_attention(q.h, k.h, v.h, p, max(n-1, 0), C.double(scale), &h), q, k, v)
	return own(h)
}

// Rows says where the rows of a packed batch stand in a paged cache: row i is position Pos[i] of sequence Seq[i], whose
// blocks are Table[Seq[i]*Width:].
type Rows struct {
	Table []int32 // [sequences, Width], block numbers
	Width int
	Seq   []int32 // [n]
	Pos   []int32 // [n]
}

// rowArgs are Rows as C takes them; what they hold is checked there.
type rowArgs struct {
	table, seq, pos *C.int32_t
	width, nseq     C.int
}

func (r *Rows) args(op string, of *Tensor) rowArgs {
	n := int(of.Dim(0))
	if len(r.Seq) != n || len(r.Pos) != n || r.Width <= 0 || len(r.Table)%r.Width != 0 {
		panic(&Error{Op: op, Shapes: [][]int64{of.Shape()}, Code: CodeShape,
			Msg: fmt.Sprintf("%d rows have %d sequence numbers, %d positions and a table of %d by width %d", n, len(r.Seq), len(r.Pos), len(r.Table), r.Width)})
	}
	return rowArgs{ints(r.Table), ints(r.Seq), ints(r.Pos), C.int(r.Width), C.int(len(r.Table) / r.Width)}
}

// Rotary are the tables of a rotary embedding, cos and sin [positions, d/2].
type Rotary struct{ Cos, Sin *Tensor }

// CacheAppend writes k and v [n, heads, d] at their rows' places; keys [blocks, heads, d, BlockSize], values [blocks,
// heads, BlockSize, d]. With tables it rotates k on the way, to its row's position, and gives the rotated q; without them
// (and q) it gives nil.
func CacheAppend(keys, values, q, k, v *Tensor, tables *Rotary, rows *Rows) *Tensor {
	var h C.sn_tensor
	if tables == nil {
		tables, q = &Rotary{}, nil
	}
	r := rows.args("cache_append", k)
	check("cache_append", C.sn_cache_append(keys.h, values.h, handle(q), k.h, v.h, handle(tables.Cos), handle(tables.Sin), r.table, r.width, r.nseq,
		r.seq, r.pos, &h), keys, values, q, k, v)
	if q == nil {
		return nil
	}
	return own(h)
}

// CacheAttention lets every row of q [n, h, d] see its sequence's positions up to its own. A row's result does not depend
// on the rows beside it.
func CacheAttention(q, keys, values *Tensor, rows *Rows, scale float64) *Tensor {
	var h C.sn_tensor
	r := rows.args("cache_attention", q)
	check("cache_attention", C.sn_cache_attention(q.h, keys.h, values.h, r.table, r.width, r.nseq, r.seq, r.pos, C.double(scale), &h), q, keys, values)
	return own(h)
}

// CacheCopyBlock copies one block, for a sequence that grows on from a shared, half-full one.
func CacheCopyBlock(keys, values *Tensor, from, to int32) {
	check("cache_copy_block", C.sn_cache_copy_block(keys.h, values.h, C.int32_t(from), C.int32_t(to)), keys)
}
