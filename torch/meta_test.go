package torch

import (
	"slices"
	"testing"
)

// A forward and training step on the meta device: shapes and errors without memory or arithmetic.
func TestMeta(t *testing.T) {
	m := func(shape ...int64) *Tensor { return Randn(1, F32, Meta, shape...) }
	cases := []struct {
		name string
		want []int64
		f    func() *Tensor
	}{
		{"linear", []int64{5, 7}, func() *Tensor { return Linear(m(5, 3), m(7, 3), m(7)) }},
		{"int8", []int64{5, 7}, func() *Tensor {
			q, scale := QuantizeRows(m(7, 3))
			return LinearPacked(m(5, 3), PackRows(q), 7, scale, m(7))
		}},
		{"rms_norm", []int64{5, 8}, func() *Tensor { return RMSNorm(m(5, 8), m(8), 1e-6) }},
		{"swiglu", []int64{5, 4}, func() *Tensor { return SwiGLU(m(5, 8)) }},
		{"rope", []int64{5, 2, 8}, func() *Tensor { return Rope(m(5, 2, 8), m(9, 4), m(9, 4), Zeros(I64, Meta, 5)) }},
		{"packed attention", []int64{5, 4, 8}, func() *Tensor { return PackedAttention(m(5, 4, 8), m(5, 2, 8), m(5, 2, 8), []int64{0, 2, 2, 5}, .3) }},
		{"embedding", []int64{2, 6}, func() *Tensor { return m(10, 6).IndexSelect(0, Zeros(I64, Meta, 2)) }},
		{"embedding_backward", []int64{10, 6}, func() *Tensor { return EmbeddingBackward(m(2, 6), Zeros(I64, Meta, 2), 10) }},
		{"softmax", []int64{2, 6}, func() *Tensor { return m(2, 6).Softmax(1).Add(m(2, 6).LogSoftmax(1)) }},
		{"gather", []int64{2, 1}, func() *Tensor { return m(2, 6).Gather(1, Zeros(I64, Meta, 2, 1)) }},
		{"masked_fill", []int64{2, 6}, func() *Tensor { return m(2, 6).MaskedFill(Zeros(Bool, Meta, 2, 6), 1) }},
		{"index_add_", []int64{2, 6}, func() *Tensor { return m(2, 6).IndexAddInPlace(0, Zeros(I64, Meta, 3), m(3, 6)) }},
		{"sums", []int64{2}, func() *Tensor { return m(2, 6).Sum(1, false).Add(m(2, 6).Mean(1, false)).Add(m(2, 6).SumAll()) }},
		{"cat", []int64{5, 6}, func() *Tensor { return Cat(0, m(2, 6), m(3, 6)) }},
		{"to", []int64{2, 6}, func() *Tensor { return m(2, 6).To(BF16, Meta) }},
		{"addmm_", []int64{2, 4}, func() *Tensor { o := m(2, 4); MatmulInto(o, 1, m(2, 3), false, m(4, 3), true); return o }},
		{"all_gather", []int64{3, 2, 6}, func() *Tensor { return (&Comm{size: 3}).AllGather(m(2, 6)) }},
		{"reduce_scatter", []int64{2, 6}, func() *Tensor { return (&Comm{size: 3}).ReduceScatter(m(6, 6)) }},
		{"all_reduce", []int64{2, 6}, func() *Tensor { return (&Comm{size: 3}).AllReduceInPlace(m(2, 6)) }},
		{"broadcast", []int64{2, 6}, func() *Tensor { return (&Comm{size: 3}).BroadcastInPlace(m(2, 6), 2) }},
		{"cache attention", []int64{1, 4, 8}, func() *Tensor {
			rows := &Rows{Table: []int32{0, 2}, Width: 2, Seq: []int32{0}, Pos: []int32{40}}
			keys, values := m(3, 2, 8, BlockSize), m(3, 2, BlockSize, 8)
			CacheAppend(keys, values, nil, m(1, 2, 8), m(1, 2, 8), nil, rows)
			CacheCopyBlock(keys, values, 0, 1)
			q := CacheAppend(keys, values, m(1, 4, 8), m(1, 2, 8), m(1, 2, 8), &Rotary{m(64, 4), m(64, 4)}, rows)
			return CacheAttention(q, keys, values, rows, .3)
		}},
		{"policy", []int64{2, 100}, func() *Tensor {
			l, tg := m(2, 100), Targets{[]int32{3, 4}, []int32{0, 0}, []float32{1, 1}}
			stats := LogitStats(l, 0, tg, nil)
			if stats[1].LogProb() != 0 || stats[1].Entropy() != 0 {
				t.Error(stats)
			}
			LogitGradInPlace(l, 0, tg, nil, stats, []float64{1, 1}, []float64{0, 0})
			return l
		}},
		{"optimizer", []int64{3}, func() *Tensor {
			p, g, a, b := m(3), m(3), m(3), m(3)
			AdamW{LR: 1}.Step([]*Tensor{p}, []*Tensor{g}, []*Tensor{a}, []*Tensor{b}, 1)
			ScaleAll([]*Tensor{g}, 2)
			CopyAll([]*Tensor{p}, []*Tensor{g})
			if SumSquares([]*Tensor{g}) != 0 || !g.AllFinite() {
				t.Error("meta tensors have a norm")
			}
			return p
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			do(t, func() {
				got := c.f()
				if got.Device() != Meta || !slices.Equal(got.Shape(), c.want) {
					t.Errorf("%v, want %v on meta", got, c.want)
				}
			})
		})
	}
	for name, c := range map[string]struct {
		code Code
		f    func()
	}{
		"policy, no such set": {CodeIndex, func() { LogitStats(m(1, 9), 0, Targets{[]int32{3}, []int32{1}, []float32{1}}, nil) }},
		"policy, rows":        {CodeShape, func() { LogitStats(m(2, 9), 0, Targets{[]int32{3}, []int32{0}, []float32{1}}, nil) }},
		"sample":              {CodeUnsupported, func() { Sample(m(1, 9), make([]Draw, 1), nil) }},
		"rms_norm":            {CodeShape, func() { RMSNorm(m(5, 8), m(7), 1e-6) }},
		"rope":                {CodeShape, func() { Rope(m(5, 2, 8), m(9, 4), m(9, 4), Zeros(I64, Meta, 4)) }},
		"cache_attention": {CodeIndex, func() {
			CacheAttention(m(1, 4, 8), m(3, 2, 8, BlockSize), m(3, 2, BlockSize, 8), &Rows{Table: []int32{3}, Width: 1, Seq: []int32{0}, Pos: []int32{0}}, 1)
		}},
		"adamw": {CodeShape, func() {
			AdamW{}.Step([]*Tensor{m(3)}, []*Tensor{m(4)}, []*Tensor{m(3)}, []*Tensor{m(3)}, 1)
		}},
	} {
		t.Run("refused: "+name, func(t *testing.T) { t.Log(fails(t, c.code, c.f)) })
	}
}

// The gradients of a block of every function have their leaves' shapes.
func TestMetaGrad(t *testing.T) {
	do(t, func() {
		WithGrad(func() {
			b := newBlock(Meta, 16, 4, 2)
			x := Randn(1, F32, Meta, 6, 16).RequireGrad(true)
			leaves := append([]*Tensor{x}, b.params...)
			out := b.forward(x, []int64{0, 4, 6})
			for i, g := range Grad([]*Tensor{out}, []*Tensor{Zeros(F32, Meta, out.Shape()...)}, leaves) {
				if g == nil || !slices.Equal(g.Shape(), leaves[i].Shape()) || g.Device() != Meta {
					t.Errorf("leaf %d of %v: %v", i, leaves[i], g)
				}
			}
		})
	})
}
