package torch

import (
	"fmt"
	"math"
	"testing"
)

// attentionPlain is causal attention of one sequence by explicit soft-max; q [n, h, d], k and v [n, kv, d].
func attentionPlain(q, k, v *Tensor, scale float64) *Tensor {
	n, h, group := q.Dim(0), q.Dim(1), q.Dim(1)/k.Dim(1)
	heads := make([]int64, h)
	for i := range heads {
		heads[i] = int64(i) / group
	}
	later := make([]uint8, n*n)
	for i := range n {
		for j := i + 1; j < n; j++ {
			later[i*n+j] = 1
		}
	}
	index := Of(heads)
	k, v = k.IndexSelect(1, index).Transpose(0, 1), v.IndexSelect(1, index).Transpose(0, 1)
	s := q.Transpose(0, 1).Matmul(k.Transpose(1, 2)).MulScalar(scale).MaskedFill(Of(later, n, n).To(Bool, CPU), math.Inf(-1))
	return s.Softmax(-1).Matmul(v).Transpose(0, 1)
}

func TestKernelPackedAttention(t *testing.T) {
	for _, c := range []struct {
		h, kv, d int64
		lengths  []int64
	}{
		{1, 1, 4, []int64{1}},
		{2, 2, 8, []int64{1, 1, 1}},
		{4, 4, 16, []int64{5, 1, 17}},
		{4, 1, 16, []int64{3, 0, 40, 0}},
		{6, 2, 24, []int64{0, 33, 2}},
		{9, 3, 64, []int64{64, 65, 1}},
		{2, 1, 32, []int64{385, 47, 49}}, // over the tiles of the fused kernel: 6 rows, 48 queries, 384 keys
		{3, 3, 20, []int64{9, 50}},       // a head size that is no multiple of AVX2's width
	} {
		t.Run(fmt.Sprintf("%d/%d heads of %d, %v", c.h, c.kv, c.d, c.lengths), func(t *testing.T) {
			do(t, func() {
				cu := []int64{0}
				for _, l := range c.lengths {
					cu = append(cu, cu[len(cu)-1]+l)
				}
				n, scale := cu[len(cu)-1], 1/math.Sqrt(float64(c.d))
				WithGrad(func() {
					q, q64 := leaf(1, n, c.h, c.d)
					k, k64 := leaf(2, n, c.kv, c.d)
					v, v64 := leaf(3, n, c.kv, c.d)
					var parts []*Tensor
					for i, l := range c.lengths {
						part := func(x *Tensor) *Tensor { return x.Narrow(0, cu[i], l) }
						if l > 0 {
							parts = append(parts, attentionPlain(part(q64), part(k64), part(v64), scale))
						}
					}
					sameGrads(t, PackedAttention(q, k, v, cu, scale), Cat(0, parts...), []*Tensor{q, k, v}, []*Tensor{q64, k64, v64})
				})
			})
		})
	}
	do(t, func() {
		none := Zeros(F32, CPU, 0, 2, 4)
		if got := PackedAttention(none, none, none, []int64{0, 0}, 1).Shape(); got[0] != 0 || got[1] != 2 || got[2] != 4 {
			t.Errorf("no tokens give %v", got)
		}
	})
}

func TestPackedAttentionArguments(t *testing.T) {
	z := func(shape ...int64) *Tensor { return Zeros(F32, CPU, shape...) }
	for name, f := range map[string]func(){
		"no sequence":                func() { PackedAttention(z(3, 2, 4), z(3, 2, 4), z(3, 2, 4), nil, 1) },
		"offsets end early":          func() { PackedAttention(z(3, 2, 4), z(3, 2, 4), z(3, 2, 4), []int64{0, 2}, 1) },
		"offsets start late":         func() { PackedAttention(z(3, 2, 4), z(3, 2, 4), z(3, 2, 4), []int64{1, 3}, 1) },
		"offsets go back":            func() { PackedAttention(z(3, 2, 4), z(3, 2, 4), z(3, 2, 4), []int64{0, 4, 3}, 1) },
		"more query than key tokens": func() { PackedAttention(z(3, 2, 4), z(2, 2, 4), z(2, 2, 4), []int64{0, 3}, 1) },
		"heads do not divide":        func() { PackedAttention(z(3, 3, 4), z(3, 2, 4), z(3, 2, 4), []int64{0, 3}, 1) },
		"two dimensions":             func() { PackedAttention(z(3, 8), z(3, 8), z(3, 8), []int64{0, 3}, 1) },
	} {
		t.Run(name, func(t *testing.T) { t.Log(fails(t, CodeShape, f)) })
	}
}

// pool is a paged cache with the keys and values that were stored in it, sequence by sequence.
type pool struct {
	h, kv, d     int64
	keys, values *Tensor
	rows         Rows
	k, v         [][]float32 // [sequence][position*kv*d]
}

// newPool deals out blocks in a shuffled order. Memory that was never written is NaN: whoever reads it is found out.
func newPool(h, kv, d int64, lengths []int) *pool {
	p := &pool{h: h, kv: kv, d: d}
	for _, l := range lengths {
		p.rows.Width = max(p.rows.Width, (l+BlockSize-1)/BlockSize)
	}
	blocks := p.rows.Width*len(lengths) + 3
	p.keys = Full(math.NaN(), F32, CPU, int64(blocks), kv, d, BlockSize)
	p.values = Full(math.NaN(), F32, CPU, int64(blocks), kv, BlockSize, d)
	order := random(3).Perm(blocks)
	for s, l := range lengths {
		for b := range p.rows.Width {
			block := int32(-1) // none
			if b*BlockSize < l {
				block = int32(order[s*p.rows.Width+b])
			}
			p.rows.Table = append(p.rows.Table, block)
		}
		r := random(uint64(s) + 10)
		p.k, p.v = append(p.k, normal(r, l*int(kv*d))), append(p.v, normal(r, l*int(kv*d)))
	}
	return p
}

func normal(r interface{ NormFloat64() float64 }, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(r.NormFloat64())
	}
	return out
}

// at gives the rows of a batch for (sequence, position) pairs.
func (p *pool) at(pairs [][2]int) *Rows {
	r := &Rows{Table: p.rows.Table, Width: p.rows.Width}
	for _, x := range pairs {
		r.Seq, r.Pos = append(r.Seq, int32(x[0])), append(r.Pos, int32(x[1]))
	}
	return r
}

// store appends the keys and values of the pairs.
func (p *pool) store(pairs [][2]int) {
	var k, v []float32
	w := int(p.kv * p.d)
	for _, x := range pairs {
		k, v = append(k, p.k[x[0]][x[1]*w:(x[1]+1)*w]...), append(v, p.v[x[0]][x[1]*w:(x[1]+1)*w]...)
	}
	n := int64(len(pairs))
	CacheAppend(p.keys, p.values, nil, Of(k, n, p.kv, p.d), Of(v, n, p.kv, p.d), nil, p.at(pairs))
}

// want is plain attention in fp64 of one query row [h, d] at a position of a sequence.
func (p *pool) want(q []float32, seq, pos int, scale float64) []float64 {
	out := make([]float64, p.h*p.d)
	for h := range p.h {
		kv := h / (p.h / p.kv)
		w := make([]float64, pos+1)
		var total float64
		for j := range w {
			for i := range p.d {
				w[j] += scale * float64(q[h*p.d+i]) * float64(p.k[seq][(int64(j)*p.kv+kv)*p.d+i])
			}
			w[j] = math.Exp(w[j])
			total += w[j]
		}
		for j := range w {
			for i := range p.d {
				out[h*p.d+i] += w[j] / total * float64(p.v[seq][(int64(j)*p.kv+kv)*p.d+i])
			}
		}
	}
	return out
}

var cacheShapes = []struct{ h, kv, d int64 }{{4, 4, 16}, {8, 2, 32}, {9, 3, 64}, {4, 1, 24}, {2, 1, 5}, {6, 2, 80}}

func allPairs(lengths []int) (pairs [][2]int) {
	for s, l := range lengths {
		for i := range l {
			pairs = append(pairs, [2]int{s, i})
		}
	}
	random(5).Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	return pairs
}

func TestKernelCacheAttention(t *testing.T) {
	lengths := []int{1, 31, 32, 33, 63, 64, 65, 100}
	for _, c := range cacheShapes {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			do(t, func() {
				p := newPool(c.h, c.kv, c.d, lengths)
				pairs := allPairs(lengths) // every row of every sequence, in mixed order
				for from := 0; from < len(pairs); from += 50 {
					p.store(pairs[from:min(from+50, len(pairs))])
				}
				scale := 1 / math.Sqrt(float64(c.d))
				q := Randn(1, F32, CPU, int64(len(pairs)), c.h, c.d)
				qs, got := Data[float32](q), Data[float64](CacheAttention(q, p.keys, p.values, p.at(pairs), scale))
				w := int(c.h * c.d)
				for i, x := range pairs {
					nearSlices(t, fmt.Sprintf("sequence of %d, position %d", lengths[x[0]], x[1]), got[i*w:(i+1)*w], p.want(qs[i*w:], x[0], x[1], scale), 1e-5)
				}
			})
		})
	}
}

// Types without a kernel go through plain operations, which is what other devices take: the same keys, values and rotated
// queries to their type's precision, and nothing is read that was never written.
func TestCacheOfOtherTypes(t *testing.T) {
	lengths := []int{1, 31, 33, 64, 100}
	for _, c := range cacheShapes {
		for dt, bound := range map[DType]float64{F64: 1e-6, BF16: .03} { // fp32's precision, bf16's
			if c.d%2 == 1 {
				continue // no rotation
			}
			t.Run(fmt.Sprint(c, dt), func(t *testing.T) {
				do(t, func() {
					p := newPool(c.h, c.kv, c.d, lengths)
					keys, values := p.keys.To(dt, CPU), p.values.To(dt, CPU)
					rows := p.at(allPairs(lengths))
					n := int64(len(rows.Seq))
					q, k, v := Randn(1, F32, CPU, n, c.h, c.d), Randn(2, F32, CPU, n, c.kv, c.d), Randn(3, F32, CPU, n, c.kv, c.d)
					tables := &Rotary{Randn(4, F32, CPU, 100, c.d/2), Randn(5, F32, CPU, 100, c.d/2)}
					turned := CacheAppend(p.keys, p.values, q, k, v, tables, rows)
					got := CacheAppend(keys, values, q.To(dt, CPU), k.To(dt, CPU), v.To(dt, CPU), tables, rows)
					near(t, "q", got, turned, bound)
					scale := 1 / float64(c.d) // rotation here is no rotation: vectors grow
					near(t, "attention", CacheAttention(got, keys, values, rows, scale), CacheAttention(turned, p.keys, p.values, rows, scale), bound)
					none := &Rows{Width: 1}
					if y := CacheAttention(Zeros(dt, CPU, 0, c.h, c.d), keys, values, none, 1); y.Dim(0) != 0 {
						t.Errorf("no rows give %v", y)
					}
				})
			})
		}
	}
}

// A row's result depends on nothing beside it: not on its place, the batch's size or the number of threads.
func TestKernelCacheAttentionInvariance(t *testing.T) {
	defer SetNumThreads(NumThreads())
	lengths := []int{3, 40, 70, 97}
	do(t, func() {
		p := newPool(6, 2, 32, lengths)
		pairs := allPairs(lengths)
		p.store(pairs)
		n := int64(len(pairs))
		q := Randn(1, F32, CPU, n, 6, 32)
		whole := CacheAttention(q, p.keys, p.values, p.at(pairs), .2)
		for i, x := range pairs {
			alone := CacheAttention(q.Narrow(0, int64(i), 1), p.keys, p.values, p.at([][2]int{x}), .2)
			sameBits(t, fmt.Sprint("row ", i, " alone"), alone, whole.Narrow(0, int64(i), 1))
		}
		for _, threads := range []int{1, 2, 3} {
			SetNumThreads(threads)
			sameBits(t, fmt.Sprint(threads, " threads"), CacheAttention(q, p.keys, p.values, p.at(pairs), .2), whole)
		}
	})
}

// Sequences 1 and 2 share the full first block of sequence 0, and go on from a copy of its half-full second one.
func TestKernelCacheSharing(t *testing.T) {
	do(t, func() {
		const kv, d, shared = 2, 16, BlockSize + 10
		p := newPool(4, kv, d, []int{shared, shared + 5, shared + 40})
		for s := 1; s < 3; s++ {
			copy(p.k[s], p.k[0])
			copy(p.v[s], p.v[0])
			p.rows.Table[s*p.rows.Width] = p.rows.Table[0]
		}
		var prefix, own [][2]int
		for i := range shared {
			prefix = append(prefix, [2]int{0, i})
		}
		p.store(prefix)
		for s := 1; s < 3; s++ {
			CacheCopyBlock(p.keys, p.values, p.rows.Table[1], p.rows.Table[s*p.rows.Width+1])
			for i := shared; i < len(p.k[s])/(kv*d); i++ {
				own = append(own, [2]int{s, i})
			}
		}
		p.store(own)
		pairs := append(own, [2]int{0, shared - 1})
		q := Randn(1, F32, CPU, int64(len(pairs)), 4, d)
		qs, got := Data[float32](q), Data[float64](CacheAttention(q, p.keys, p.values, p.at(pairs), .25))
		for i, x := range pairs {
			nearSlices(t, fmt.Sprint(x), got[i*4*d:(i+1)*4*d], p.want(qs[i*4*d:], x[0], x[1], .25), 1e-5)
		}
	})
}

// What lies behind a sequence's end, or in a row that its block had before, must not be seen.
func TestKernelCacheStale(t *testing.T) {
	do(t, func() {
		p := newPool(2, 1, 8, []int{20})
		for _, garbage := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e30} {
			p.keys.FillInPlace(garbage)
			p.values.FillInPlace(garbage)
			var pairs [][2]int
			for i := range 20 {
				pairs = append(pairs, [2]int{0, i})
			}
			p.store(pairs)
			q := Randn(1, F32, CPU, 20, 2, 8)
			qs, got := Data[float32](q), Data[float64](CacheAttention(q, p.keys, p.values, p.at(pairs), .3))
			for i := range pairs {
				nearSlices(t, fmt.Sprint("garbage ", garbage), got[i*16:(i+1)*16], p.want(qs[i*16:], 0, i, .3), 1e-5)
			}
		}
	})
}

func TestCacheArguments(t *testing.T) {
	keys := func() *Tensor { return Zeros(F32, CPU, 4, 2, 8, BlockSize) }
	values := func() *Tensor { return Zeros(F32, CPU, 4, 2, BlockSize, 8) }
	row := func() *Tensor { return Zeros(F32, CPU, 1, 2, 8) }
	query := func() *Tensor { return Zeros(F32, CPU, 1, 6, 8) }
	rows := func(seq, pos int32, table ...int32) *Rows {
		return &Rows{Table: table, Width: 2, Seq: []int32{seq}, Pos: []int32{pos}}
	}
	both := func(r *Rows) []func() {
		return []func(){
			func() { CacheAppend(keys(), values(), nil, row(), row(), nil, r) },
			func() { CacheAttention(query(), keys(), values(), r, 1) },
		}
	}
	for name, c := range map[string]struct {
		code Code
		fs   []func()
	}{
		"negative position":         {CodeIndex, both(rows(0, -1, 0, 1))},
		"position behind the table": {CodeIndex, both(rows(0, 2*BlockSize, 0, 1))},
		"no such sequence":          {CodeIndex, both(rows(1, 0, 0, 1))},
		"negative sequence":         {CodeIndex, both(rows(-1, 0, 0, 1))},
		"no block there":            {CodeIndex, both(rows(0, BlockSize, 0, -1))},
		"block behind the cache":    {CodeIndex, both(rows(0, BlockSize, 0, 4))},
		"an earlier block is gone":  {CodeIndex, both(rows(0, BlockSize, -1, 0))[1:]},
		"too few rows":              {CodeShape, both(&Rows{Table: []int32{0, 1}, Width: 2})},
		"no width":                  {CodeShape, both(&Rows{Table: []int32{0, 1}, Seq: []int32{0}, Pos: []int32{0}})},
		"ragged table":              {CodeShape, both(rows(0, 0, 0, 1, 2))},
		"values are keys": {CodeShape, []func(){
			func() { CacheAppend(keys(), keys(), nil, row(), row(), nil, rows(0, 0, 0, 1)) },
			func() { CacheAttention(query(), keys(), keys(), rows(0, 0, 0, 1), 1) },
		}},
		"heads do not divide": {CodeShape, []func(){
			func() { CacheAttention(Zeros(F32, CPU, 1, 5, 8), keys(), values(), rows(0, 0, 0, 1), 1) },
			func() { CacheAppend(keys(), values(), nil, query(), query(), nil, rows(0, 0, 0, 1)) },
		}},
		"bf16 and fp32": {CodeType, []func(){
			func() { CacheAppend(keys().To(BF16, CPU), values(), nil, row(), row(), nil, rows(0, 0, 0, 1)) },
			func() { CacheAttention(query().To(BF16, CPU), keys(), values(), rows(0, 0, 0, 1), 1) },
		}},
		"copy of a block that is not there": {CodeIndex, []func(){
			func() { CacheCopyBlock(keys(), values(), 0, 4) },
			func() { CacheCopyBlock(keys(), values(), -5, 0) },
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, f := range c.fs {
				t.Log(fails(t, c.code, f))
			}
		})
	}
}
