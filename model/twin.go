package model

import (
	"errors"
	"fmt"

	"seadtrain/torch"
)

// Twins are made for generation alone: errTwin is what saving or copying one gives.
var errTwin = errors.New("the weights are a twin's: take the model that it was made from")

// Twin is a second form of a model on the CPU, to generate with: the matrices of the layers and of the head in fp32, bf16 or
// int8 (one scale for each row), norms, biases, activations and KV cache in fp32, so that every fused kernel takes it. The
// embedding stays as it is, also under a tied head: looking a row up is exact. What has the wanted type already is shared
// with m, not copied. Either may be closed first.
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
	if t.head == t.embed && weights != m.DType { // the head takes on another form than the embedding
		head := *t.embed
		t.head, src = &head, append(src, m.embed)
	}
	err := torch.Do(func() {
		t.cos, t.sin = m.cos.Detach().Keep(), m.sin.Detach().Keep()
		for i, l := range t.Leaves() {
			l.from = src[i]
			form := torch.F32
			switch {
			case l == t.embed && l != t.head:
				form = m.DType
			case len(l.Parts[0].Shape) == 2:
				form = weights
			}
			if form == m.DType {
				l.Tensor = l.from.Tensor.Detach().Keep()
				continue
			}
			shape := l.from.Tensor.Shape()
			l.Tensor = torch.Empty(form, m.Device, shape...).Keep()
			if form == torch.I8 {
				l.scale = torch.Empty(torch.F32, m.Device, shape[0]).Keep()
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

// Refresh takes over, in place, what has become of the weights that a twin was made from. Other models take nothing.
func (m *Model) Refresh() error {
	if m.source == nil {
		return nil
	}
	return torch.Do(func() {
		for _, l := range m.Leaves() {
			if l.Tensor.DType() == m.source.DType {
				continue // shared
			}
			torch.InScope(func() {
				if l.scale == nil {
					l.Tensor.CopyInPlace(l.from.Tensor.Detach())
					return
				}
				q, scale := torch.QuantizeRows(l.from.Tensor)
				l.Tensor.CopyInPlace(q)
				l.scale.CopyInPlace(scale)
			})
		}
	})
}
