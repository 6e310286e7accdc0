package model

import (
	"errors"
	"fmt"

	"seadtrain/torch"
)

// Axis legend of this package: n tokens of a packed batch, c hidden size, h query heads, k key/value heads, d head size,
// f MLP size, v vocabulary. Under tensor parallelism h, k, f and v are this rank's share.

// Shard says how a weight is split over the ranks of the tensor-parallel group.
type Shard int

const (
	Replicated Shard = iota // every rank holds all of it
	Rows                    // every part's output rows are split: attention heads, MLP columns, vocabulary
	Cols                    // input columns are split: the matrix that follows a row-split one
)

// Part is one tensor of the Hugging Face checkpoint, at its full size.
type Part struct {
	Name  string
	Shape []int // [rows] or [rows, columns]
}

// Leaf is a tensor that the trainer treats as one: a weight, or several weights of the checkpoint one below the other
// (q, k and v; gate and up), so that a layer runs four matrix products instead of seven.
type Leaf struct {
	Name   string
	Parts  []Part
	Shard  Shard
	Tensor *torch.Tensor // this rank's slice
	// OneRank: added to the output by rank 0 alone (the bias after a column-split matrix), since outputs are summed.
	OneRank bool

	// Of a Twin: what it is made from, the rows that Tensor holds in panels (0: it is not packed), and their scales [rows] in
	// int8 (else nil).
	from   *Leaf
	packed int64
	scale  *torch.Tensor
}

// Linear is x·wᵀ + bias, in x's type whatever the weight's; bias may be nil.
func (l *Leaf) Linear(x *torch.Tensor, bias *Leaf) *torch.Tensor {
	var b *torch.Tensor
	if bias != nil {
		b = bias.Tensor
	}
	if l.packed > 0 {
		return torch.LinearPacked(x, l.Tensor, l.packed, l.scale, b)
	}
	return torch.Linear(x, l.Tensor, b)
}

// Matrix reports whether the leaf multiplies, rather than adds or scales.
func (l *Leaf) Matrix() bool { return len(l.Parts[0].Shape) == 2 }

// Bytes is the memory of this rank's slice.
func (l *Leaf) Bytes() int64 {
	n := l.Tensor.Numel() * int64(l.Tensor.DType().Size())
	if l.scale != nil {
		n += 4 * l.scale.Numel()
	}
	return n
}

// Local is the shape of a part on one of size ranks.
func (l *Leaf) Local(p Part, size int) []int64 {
	s := make([]int64, len(p.Shape))
	for i, n := range p.Shape {
		s[i] = int64(n)
	}
	switch l.Shard {
	case Rows:
		s[0] /= int64(size)
	case Cols:
		s[1] /= int64(size)
	}
	return s
}

// shape is the local shape of the whole leaf.
func (l *Leaf) shape(size int) []int64 {
	s := l.Local(l.Parts[0], size)
	for _, p := range l.Parts[1:] {
		s[0] += l.Local(p, size)[0]
	}
	return s
}

// View is the local slice of one part: a view of the leaf's memory.
func (l *Leaf) View(part, size int) *torch.Tensor {
	from := int64(0)
	for i := range part {
		from += l.Local(l.Parts[i], size)[0]
	}
	return l.Tensor.Narrow(0, from, l.Local(l.Parts[part], size)[0])
}

// block is half a layer: x + out(f(norm(x))). Attention and MLP are both of this form; each is one step of the
// layer-wise backward, and each ends in the one sum over tensor-parallel ranks.
type block struct {
	layer                     int
	mlp                       bool
	norm, in, inBias          *Leaf
	qNorm, kNorm              *Leaf // attention of Qwen3
	out, outBias              *Leaf
	heads, kvHeads, headWidth int64
}

// leaves lists the block's weights; the trainer's gradients come in this order.
func (b *block) leaves() []*Leaf {
	var ls []*Leaf
	for _, l := range []*Leaf{b.norm, b.in, b.inBias, b.qNorm, b.kNorm, b.out, b.outBias} {
		if l != nil {
			ls = append(ls, l)
		}
	}
	return ls
}

// layout declares every weight of a model: names, shapes, and what a rank holds. There is no other list.
func (m *Model) layout() {
	c := m.Config
	hidden, ffn, d := c.HiddenSize, c.IntermediateSize, c.HeadDim
	q, kv := c.NumAttentionHeads*d, c.NumKeyValueHeads*d
	leaf := func(name string, s Shard, parts ...Part) *Leaf { return &Leaf{Name: name, Shard: s, Parts: parts} }
	m.embed = leaf("embed_tokens", Rows, Part{"model.embed_tokens.weight", []int{c.VocabSize, hidden}})
	for i := range c.NumHiddenLayers {
		p := fmt.Sprintf("model.layers.%d.", i)
		n := fmt.Sprintf("layers.%d.", i)
		size := int64(m.tp.Size())
		a := &block{layer: i, heads: int64(c.NumAttentionHeads) / size, kvHeads: int64(c.NumKeyValueHeads) / size, headWidth: int64(d)}
		a.norm = leaf(n+"input_layernorm", Replicated, Part{p + "input_layernorm.weight", []int{hidden}})
		a.in = leaf(n+"qkv_proj", Rows, Part{p + "self_attn.q_proj.weight", []int{q, hidden}},
			Part{p + "self_attn.k_proj.weight", []int{kv, hidden}}, Part{p + "self_attn.v_proj.weight", []int{kv, hidden}})
		if c.QKVBias() {
			a.inBias = leaf(n+"qkv_bias", Rows, Part{p + "self_attn.q_proj.bias", []int{q}},
				Part{p + "self_attn.k_proj.bias", []int{kv}}, Part{p + "self_attn.v_proj.bias", []int{kv}})
		}
		if c.QKNorm() {
			a.qNorm = leaf(n+"q_norm", Replicated, Part{p + "self_attn.q_norm.weight", []int{d}})
			a.kNorm = leaf(n+"k_norm", Replicated, Part{p + "self_attn.k_norm.weight", []int{d}})
		}
		a.out = leaf(n+"o_proj", Cols, Part{p + "self_attn.o_proj.weight", []int{hidden, q}})
		if c.OBias() {
			a.outBias = leaf(n+"o_bias", Replicated, Part{p + "self_attn.o_proj.bias", []int{hidden}})
			a.outBias.OneRank = true
		}
		b := &block{layer: i, mlp: true}
		b.norm = leaf(n+"post_attention_layernorm", Replicated, Part{p + "post_attention_layernorm.weight", []int{hidden}})
		b.in = leaf(n+"gate_up_proj", Rows, Part{p + "mlp.gate_proj.weight", []int{ffn, hidden}}, Part{p + "mlp.up_proj.weight", []int{ffn, hidden}})
		b.out = leaf(n+"down_proj", Cols, Part{p + "mlp.down_proj.weight", []int{hidden, ffn}})
		if c.MLPBias {
			b.inBias = leaf(n+"gate_up_bias", Rows, Part{p + "mlp.gate_proj.bias", []int{ffn}}, Part{p + "mlp.up_proj.bias", []int{ffn}})
			b.outBias = leaf(n+"down_bias", Replicated, Part{p + "mlp.down_proj.bias", []int{hidden}})
			b.outBias.OneRank = true
		}
		m.blocks = append(m.blocks, a, b)
	}
	m.norm = leaf("norm", Replicated, Part{"model.norm.weight", []int{hidden}})
	m.head = m.embed
	if !c.TieWordEmbeddings {
		m.head = leaf("lm_head", Rows, Part{"lm_head.weight", []int{c.VocabSize, hidden}})
	}
}

// Leaves lists every weight once, in the order of the forward.
func (m *Model) Leaves() []*Leaf {
	ls := []*Leaf{m.embed}
	for _, b := range m.blocks {
		ls = append(ls, b.leaves()...)
	}
	ls = append(ls, m.norm)
	if m.head != m.embed {
		ls = append(ls, m.head)
	}
	return ls
}

// NumParams is the number of parameters of the whole model, over all ranks.
func (m *Model) NumParams() int64 {
	if m.source != nil {
		return m.source.NumParams() // a tied head is no second one
	}
	n := int64(0)
	for _, l := range m.Leaves() {
		for _, p := range l.Parts {
			k := int64(1)
			for _, s := range p.Shape {
				k *= int64(s)
			}
			n += k
		}
	}
	return n
}

// CheckTP refuses a tensor-parallel size that does not divide the model, before anything is loaded.
func (c *Config) CheckTP(size int) error {
	if size < 1 {
		return fmt.Errorf("tensor parallelism over %d ranks: want at least 1", size)
	}
	var errs []error
	for _, d := range []struct {
		name string
		n    int
	}{
		{"num_attention_heads", c.NumAttentionHeads}, {"num_key_value_heads", c.NumKeyValueHeads},
		{"intermediate_size", c.IntermediateSize}, {"vocab_size", c.VocabSize},
	} {
		if d.n%size != 0 {
			errs = append(errs, fmt.Errorf("tensor parallelism over %d ranks: %s is %d, which does not divide evenly", size, d.name, d.n))
		}
	}
	return errors.Join(errs...)
}
