package model

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"unsafe"

	"seadtrain/model/safetensors"
	"seadtrain/torch"
)

// Load reads a Hugging Face directory: config.json and one or several safetensors files. It is strict both ways: a tensor
// that is missing, unknown, mis-shaped or wrongly typed is named. Each rank reads only its slice.
func Load(dir string, o Options) (*Model, error) {
	c, err := LoadConfig(dir)
	if err != nil {
		return nil, err
	}
	set, err := safetensors.Open(dir)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	var m *Model
	err = torch.Try(func() error {
		if m, err = newModel(c, o); err != nil {
			return err
		}
		return m.read(set)
	})
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", dir, err)
	}
	return m, nil
}

// read fills the weights from a checkpoint.
func (m *Model) read(set *safetensors.Set) error {
	var errs []error
	known := map[string]bool{}
	for _, l := range m.Leaves() {
		for _, p := range l.Parts {
			known[p.Name] = true
			errs = append(errs, checkTensor(set.Get(p.Name), p))
		}
	}
	for _, name := range set.Names() {
		// A tied model may carry its head a second time; older checkpoints carry the rotary frequencies.
		if known[name] || (name == "lm_head.weight" && m.head == m.embed) || strings.HasSuffix(name, "rotary_emb.inv_freq") {
			continue
		}
		errs = append(errs, fmt.Errorf("%s: tensor %q is unknown to a %s model", set.Get(name).File, name, m.Config.ModelType))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if m.head == m.embed {
		if err := m.checkTied(set); err != nil {
			return err
		}
	}
	for _, l := range m.Leaves() {
		l.Tensor = torch.Empty(m.DType, m.Device, l.shape(m.tp.Size())...).Keep()
		if m.Device == torch.Meta {
			continue
		}
		for i, p := range l.Parts {
			t := set.Get(p.Name)
			data, err := m.slice(l, p, t)
			if err != nil {
				return err
			}
			torch.InScope(func() { l.View(i, m.tp.Size()).CopyInPlace(borrow(data, t.DType, l.Local(p, m.tp.Size()))) })
		}
	}
	return nil
}

func checkTensor(t *safetensors.Tensor, p Part) error {
	switch {
	case t == nil:
		return fmt.Errorf("tensor %q is missing", p.Name)
	case !slices.Equal(t.Shape, p.Shape):
		return fmt.Errorf("%s: tensor %q has shape %v: the config asks for %v", t.File, p.Name, t.Shape, p.Shape)
	case t.DType != safetensors.F32 && t.DType != safetensors.BF16 && t.DType != safetensors.F16:
		return fmt.Errorf("%s: tensor %q is %s: want F32, BF16 or F16", t.File, p.Name, t.DType)
	}
	return nil
}

// checkTied refuses a checkpoint whose config says that the head is the embedding and whose file says otherwise.
func (m *Model) checkTied(set *safetensors.Set) error {
	h, e := set.Get("lm_head.weight"), set.Get(m.embed.Parts[0].Name)
	if h != nil && (h.DType != e.DType || !slices.Equal(h.Data, e.Data)) {
		return fmt.Errorf("%s: tensor \"lm_head.weight\" differs from the embedding, but tie_word_embeddings is true", h.File)
	}
	return nil
}

// slice gives the bytes of this rank's share of a stored tensor.
func (m *Model) slice(l *Leaf, p Part, t *safetensors.Tensor) ([]byte, error) {
	r, n := m.tp.Rank(), m.tp.Size()
	switch {
	case n == 1 || l.Shard == Replicated:
		return t.Data, nil
	case l.Shard == Rows:
		k := p.Shape[0] / n
		return t.Rows(r*k, (r+1)*k)
	}
	k := p.Shape[1] / n
	return t.Cols(r*k, (r+1)*k)
}

var fileTypes = map[safetensors.DType]torch.DType{safetensors.F32: torch.F32, safetensors.BF16: torch.BF16, safetensors.F16: torch.F16}

// borrow views a file's bytes as a tensor. Files align tensors to 8 bytes, which suits every type read here.
func borrow(data []byte, d safetensors.DType, shape []int64) *torch.Tensor {
	return torch.Borrow(unsafe.Pointer(unsafe.SliceData(data)), fileTypes[d], shape...)
}

// Init makes a model of random weights: normal with the config's initializer_range, residual outputs scaled down by
// √(2·layers), norms one, biases zero. A rank's numbers are its slice of what one rank would have.
func Init(c *Config, o Options, seed uint64) (*Model, error) {
	var m *Model
	err := torch.Try(func() (err error) {
		if m, err = newModel(c, o); err != nil {
			return err
		}
		for _, l := range m.Leaves() {
			l.Tensor = torch.Zeros(m.DType, m.Device, l.shape(m.tp.Size())...).Keep()
			if m.Device == torch.Meta {
				continue
			}
			for i, p := range l.Parts {
				torch.InScope(func() { m.initPart(l, i, p, seed) })
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("init model: %w", err)
	}
	return m, nil
}

func (m *Model) initPart(l *Leaf, i int, p Part, seed uint64) {
	view := l.View(i, m.tp.Size())
	switch {
	case strings.HasSuffix(p.Name, "norm.weight"):
		view.FillInPlace(1)
	case len(p.Shape) == 1: // biases stay zero
	default:
		h := fnv.New64a()
		h.Write([]byte(p.Name))
		std := m.Config.InitializerRange
		if l.Shard == Cols {
			std /= sqrt(2 * m.Config.NumHiddenLayers)
		}
		w := torch.Randn(seed^h.Sum64(), torch.F32, torch.CPU, int64(p.Shape[0]), int64(p.Shape[1])).MulScalarInPlace(std)
		r, loc := int64(m.tp.Rank()), l.Local(p, m.tp.Size())
		switch l.Shard {
		case Rows:
			w = w.Narrow(0, r*loc[0], loc[0])
		case Cols:
			w = w.Narrow(1, r*loc[1], loc[1])
		}
		view.CopyInPlace(w)
	}
}

// Copy makes an independent copy: the frozen one.
func (m *Model) Copy() (*Model, error) {
	if m.source != nil {
		return nil, errTwin
	}
	n := &Model{Config: m.Config.Clone(), DType: m.DType, Device: m.Device, tp: m.tp, scale: m.scale}
	n.layout()
	err := torch.Do(func() {
		n.rotary = torch.Rotary{Cos: m.rotary.Cos.Clone().Keep(), Sin: m.rotary.Sin.Clone().Keep()}
		src := m.Leaves()
		for i, l := range n.Leaves() {
			l.Tensor = src[i].Tensor.Detach().Clone().Keep()
		}
	})
	return n, err
}

// Checksum is the SHA-256 of this rank's weights, in order.
func (m *Model) Checksum() (string, error) {
	h := sha256.New()
	err := torch.Do(func() {
		for _, l := range m.Leaves() {
			torch.InScope(func() { h.Write(l.Tensor.Detach().To(m.DType, torch.CPU).Contiguous().Bytes()) })
		}
	})
	return hex.EncodeToString(h.Sum(nil)), err
}
