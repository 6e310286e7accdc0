package model

import (
	"errors"
	"fmt"

	"seadtrain/torch"
)

// Twins are made for generation alone: errTwin is what saving or copying one gives.
var errTwin = errors.New("the weights are a twin's: take the model that it was made from")

// Twin is a second form of a model on the CPU, to generate with: the matrices of the layers and of the head packed, in fp32,
// bf16 or int8 (one scale for each row), norms, biases, activations and KV cache in fp32, so that every fused kernel takes
// it. In fp32 it computes what m computes, bit for bit. The embedding is m's, also under a tied head: looking a row up is
// exact. What has the wanted form already is shared with m, not copied. Either may be closed first.
func (m *Model) Twin(weights torch.DType) (*Model, error) {
	switch {
	case m.source != nil:
		return nil, errTwin
	case m.Device != torch.CPU:
		return nil, fmt.Errorf("twin in %v: the model is on %v, the kernels for twins are the CPU's", weights, m.Device)
	case weights != torch.F32 && weights != torch.BF16 && weights != torch.I8:
		return nil, fmt.Errorf("twin in %v: want F32, BF16 or I8", weights)
	}
	t := &Model{Config: m.Config.Clone(), DType: torch.F32, Device: m.Device, source: m, tp: m.tp, scale: m.scale}
	t.layout()
	src := m.Leaves()
	if t.head == t.embed { // the head takes on another form than the embedding
		head := *t.embed
		t.head, src = &head, append(src, m.embed)
	}
	err := torch.Do(func() {
		t.rotary = torch.Rotary{Cos: m.rotary.Cos.Detach().Keep(), Sin: m.rotary.Sin.Detach().Keep()}
		for i, l := range t.Leaves() {
			l.from = src[i]
			switch {
			case l != t.embed && l.Matrix():
				l.pack(weights)
			case l != t.embed && m.DType != torch.F32:
				l.Tensor = torch.Empty(torch.F32, m.Device, l.from.Tensor.Shape()...).Keep()
			default:
				l.Tensor = l.from.Tensor.Detach().Keep()
			}
		}
	})
	if err == nil {
		err = t.Refresh()
	}
	if err != nil {
		t.Close()
		return nil, fmt.Errorf("twin in %v: %w", weights, err)
	}
	return t, nil
}

// pack makes room for the panels of a matrix.
func (l *Leaf) pack(form torch.DType) {
	rows, in := l.from.Tensor.Dim(0), l.from.Tensor.Dim(1)
	l.packed = rows
	l.Tensor = torch.Empty(form, torch.CPU, (rows+torch.PanelSize-1)/torch.PanelSize, in, torch.PanelSize).Keep()
	if form == torch.I8 {
		l.scale = torch.Empty(torch.F32, torch.CPU, rows).Keep()
	}
}

// Refresh takes over, in place, what has become of the weights that a twin was made from. Other models take nothing.
func (m *Model) Refresh() error {
	if m.source == nil {
		return nil
	}
	return torch.Do(func() {
		for _, l := range m.Leaves() {
			torch.InScope(func() {
				w := l.from.Tensor.Detach()
				switch {
				case l.packed == 0 && l.Tensor.DType() == w.DType(): // shared
				case l.packed == 0:
					l.Tensor.CopyInPlace(w)
				case l.scale == nil:
					l.Tensor.CopyInPlace(torch.PackRows(w.To(l.Tensor.DType(), torch.CPU)))
				default:
					q, scale := torch.QuantizeRows(w)
					l.Tensor.CopyInPlace(torch.PackRows(q))
					l.scale.CopyInPlace(scale)
				}
			})
		}
	})
}
