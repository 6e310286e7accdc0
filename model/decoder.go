package model

import (
	"fmt"
	"math"

	"seadtrain/torch"
)

// Model is a decoder-only transformer of the Qwen2, Qwen3 or Llama family. The same code runs training, scoring and
// generation: they differ in the Attention that is passed in. Methods run inside torch.Do.
type Model struct {
	Config *Config
	DType  torch.DType // of activations and cache, and of the weights unless this is a Twin
	Device torch.Device

	source            *Model // of a Twin
	tp                *torch.Comm
	embed, norm, head *Leaf
	blocks            []*block // attention, MLP, attention, MLP, …
	rotary            torch.Rotary
	scale             float64 // 1/√d
}

// Options say how a model is held.
type Options struct {
	DType  torch.DType  // of the weights in memory
	Device torch.Device // CPU by default
	TP     *torch.Comm  // nil: one rank
	// MaxPositions bounds the rotary table; 0: the config's whole context.
	MaxPositions int
}

// Attention mixes the tokens of a packed batch: q [n, h, d], k and v [n, k, d], not yet rotated; the result is [n, h, d].
type Attention interface {
	Attend(layer int, q, k, v *torch.Tensor, rot Rotation, scale float64) *torch.Tensor
}

// Rotation turns queries and keys by the angles of their positions.
type Rotation struct {
	torch.Rotary
	Pos *torch.Tensor // [n] int64
}

// Packed is causal attention within sequences laid one after another: training and full forward.
type Packed struct {
	Cu []int64 // offsets of the sequences, from 0 to n
}

func (p Packed) Attend(_ int, q, k, v *torch.Tensor, rot Rotation, scale float64) *torch.Tensor {
	turn := func(x *torch.Tensor) *torch.Tensor { return torch.Rope(x, rot.Cos, rot.Sin, rot.Pos) }
	return torch.PackedAttention(turn(q), turn(k), v, p.Cu, scale)
}

// newModel declares the weights and builds the rotary table; memory for the weights comes from the caller.
func newModel(c *Config, o Options) (*Model, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if o.TP == nil {
		o.TP = torch.Solo()
	}
	if err := c.CheckTP(o.TP.Size()); err != nil {
		return nil, err
	}
	m := &Model{Config: c.Clone(), DType: o.DType, Device: o.Device, tp: o.TP, scale: 1 / math.Sqrt(float64(c.HeadDim))}
	m.layout()
	m.fillRotary(o.MaxPositions)
	return m, nil
}

// fillRotary fills cos and sin [positions, d/2] in fp32, products rounded to fp32 first, as Hugging Face does.
func (m *Model) fillRotary(positions int) {
	inv, scaling := m.Config.RopeInvFreq()
	if limit := m.Config.MaxContext(); positions <= 0 || positions > limit {
		positions = limit
	}
	half := len(inv)
	if m.Device == torch.Meta {
		table := func() *torch.Tensor { return torch.Empty(torch.F32, torch.Meta, int64(positions), int64(half)).Keep() }
		m.rotary = torch.Rotary{Cos: table(), Sin: table()}
		return
	}
	cos, sin := make([]float32, positions*half), make([]float32, positions*half)
	for p := range positions {
		for i, f := range inv {
			s, c := math.Sincos(float64(float32(p) * f))
			cos[p*half+i], sin[p*half+i] = float32(c)*scaling, float32(s)*scaling
		}
	}
	table := func(v []float32) *torch.Tensor {
		return torch.Of(v, int64(positions), int64(half)).To(torch.F32, m.Device).Keep()
	}
	m.rotary = torch.Rotary{Cos: table(cos), Sin: table(sin)}
}

// TP is the tensor-parallel group the weights are split over.
func (m *Model) TP() *torch.Comm { return m.tp }

// MaxPositions is the number of positions the rotary table holds.
func (m *Model) MaxPositions() int { return int(m.rotary.Cos.Dim(0)) }

// Blocks is the number of half layers: attention and MLP of each layer.
func (m *Model) Blocks() int { return len(m.blocks) }

// BlockLeaves lists the weights of one half layer, in the order in which the trainer asks for their gradients.
func (m *Model) BlockLeaves(i int) []*Leaf { return m.blocks[i].leaves() }

// EmbedLeaf, NormLeaf and HeadLeaf are the weights outside the layers; a tied head is the embedding itself.
func (m *Model) EmbedLeaf() *Leaf { return m.embed }
func (m *Model) NormLeaf() *Leaf  { return m.norm }
func (m *Model) HeadLeaf() *Leaf  { return m.head }

// VocabOffset is the first vocabulary id of this rank's rows of embedding and head.
func (m *Model) VocabOffset() int64 { return int64(m.tp.Rank()) * m.embed.Tensor.Dim(0) }

// Embed looks tokens up: ids [n] int64 → [n, c]. Ids of other ranks' rows give zeros here, and the sum over ranks the
// whole.
func (m *Model) Embed(ids *torch.Tensor) *torch.Tensor {
	rows := func(ids *torch.Tensor) *torch.Tensor {
		return m.embed.Tensor.Detach().IndexSelect(0, ids).To(m.DType, m.Device)
	}
	if m.tp.Size() == 1 {
		return rows(ids)
	}
	local, mask := m.localIDs(ids)
	x := rows(local).Mul(mask)
	return m.tp.AllReduceInPlace(x)
}

// localIDs gives row numbers of this rank's slice (0 for ids of others) and a mask [n, 1] of the own ones.
func (m *Model) localIDs(ids *torch.Tensor) (local, mask *torch.Tensor) {
	rows := float64(m.embed.Tensor.Dim(0))
	l := ids.AddScalar(-float64(m.VocabOffset())) // fp32, which holds every id exactly
	clamped := l.ClampMin(0).ClampMax(rows - 1)
	return clamped.To(torch.I64, m.Device), l.Eq(clamped).To(m.DType, m.Device).Reshape(-1, 1)
}

// EmbedBackward adds the embedding's gradient for dx [n, c] into grad [rows, c].
func (m *Model) EmbedBackward(ids, dx, grad *torch.Tensor) {
	if m.tp.Size() > 1 {
		var mask *torch.Tensor
		ids, mask = m.localIDs(ids)
		dx = dx.Mul(mask.To(dx.DType(), dx.Device()))
	}
	grad.IndexAddInPlace(0, ids, dx.To(grad.DType(), grad.Device()))
}

// Block computes half a layer without its residual: x [n, c] → this rank's summand [n, c]; the caller adds Reduce of it
// to x. pos [n] int64.
func (m *Model) Block(i int, x, pos *torch.Tensor, att Attention) *torch.Tensor {
	return m.Inner(i, torch.RMSNorm(x, m.blocks[i].norm.Tensor, m.Config.RMSNormEps), pos, att)
}

// Inner is Block behind its norm.
func (m *Model) Inner(i int, y, pos *torch.Tensor, att Attention) *torch.Tensor {
	b := m.blocks[i]
	y = b.in.Linear(y, b.inBias)
	if b.mlp {
		y = torch.SwiGLU(y)
	} else {
		y = m.attend(b, y, pos, att)
	}
	bias := b.outBias
	if bias != nil && bias.OneRank && m.tp.Rank() != 0 {
		bias = nil
	}
	return b.out.Linear(y, bias)
}

// attend splits qkv [n, (h+2k)·d] into heads, mixes them and joins them again.
func (m *Model) attend(b *block, qkv, pos *torch.Tensor, att Attention) *torch.Tensor {
	heads := qkv.Reshape(-1, b.heads+2*b.kvHeads, b.headWidth)
	parts := heads.Split(1, b.heads, b.kvHeads, b.kvHeads)
	q, k, v := parts[0], parts[1], parts[2]
	if b.qNorm != nil {
		q = torch.RMSNorm(q, b.qNorm.Tensor, m.Config.RMSNormEps)
		k = torch.RMSNorm(k, b.kNorm.Tensor, m.Config.RMSNormEps)
	}
	return att.Attend(b.layer, q, k, v, Rotation{m.rotary, pos}, m.scale).Reshape(-1, b.heads*b.headWidth)
}

// Reduce sums a block's output over the ranks and adds it to the residual stream.
func (m *Model) Reduce(x, partial *torch.Tensor) *torch.Tensor {
	return x.Add(m.tp.AllReduceInPlace(partial))
}

// FinalNorm is the norm before the head.
func (m *Model) FinalNorm(x *torch.Tensor) *torch.Tensor {
	return torch.RMSNorm(x, m.norm.Tensor, m.Config.RMSNormEps)
}

// FirstNorm is the norm in front of the first block.
func (m *Model) FirstNorm(x *torch.Tensor) *torch.Tensor {
	return torch.RMSNorm(x, m.blocks[0].norm.Tensor, m.Config.RMSNormEps)
}

// AddNorm adds this rank's summand of block i to the residual stream x, in place, and gives what comes next of it: the norm in
// front of the next block, or of the head.
func (m *Model) AddNorm(i int, x, partial *torch.Tensor) *torch.Tensor {
	next := m.norm
	if i+1 < len(m.blocks) {
		next = m.blocks[i+1].norm
	}
	return torch.AddRMSNormInPlace(x, m.tp.AllReduceInPlace(partial), next.Tensor, m.Config.RMSNormEps)
}

// Hidden runs the whole stack, without gradients: tokens and their positions [n] → [n, c], ready for the head. What a layer
// leaves behind is freed before the next one.
func (m *Model) Hidden(ids, pos []int32, att Attention) *torch.Tensor {
	return torch.Scoped(func() *torch.Tensor {
		p, x := m.Index(pos), m.Embed(m.Index(ids))
		y := m.FirstNorm(x)
		for i := range m.blocks {
			y = torch.Scoped(func() *torch.Tensor { return m.AddNorm(i, x, m.Inner(i, y, p, att)) })
		}
		return y
	})
}

// LocalLogits gives the columns of this rank: h [n, c] → [n, v].
func (m *Model) LocalLogits(h *torch.Tensor) *torch.Tensor {
	return m.head.Linear(h, nil)
}

// Logits gives all columns on every rank, in fp32: h [n, c] → [n, vocabulary].
func (m *Model) Logits(h *torch.Tensor) *torch.Tensor {
	l := m.LocalLogits(h).To(torch.F32, m.Device)
	if m.tp.Size() == 1 {
		return l
	}
	all := m.tp.AllGather(l) // [ranks, n, v] → [n, ranks·v]
	return all.Transpose(0, 1).Reshape(h.Dim(0), int64(m.Config.VocabSize))
}

// Index makes an int64 tensor of token ids or positions on the model's device.
func (m *Model) Index(v []int32) *torch.Tensor {
	if m.Device == torch.Meta {
		return torch.Empty(torch.I64, torch.Meta, int64(len(v)))
	}
	return torch.Of(v).To(torch.I64, m.Device)
}

// CheckIDs names the first token that the model does not have.
func (m *Model) CheckIDs(ids []int32) error {
	for i, id := range ids {
		if id < 0 || int(id) >= m.Config.VocabSize {
			return fmt.Errorf("token %d is id %d: the model has %d", i, id, m.Config.VocabSize)
		}
	}
	return nil
}

// Close frees the weights.
func (m *Model) Close() {
	for _, l := range m.Leaves() {
		l.Tensor.Free()
		l.scale.Free()
	}
	m.rotary.Cos.Free()
	m.rotary.Sin.Free()
}
