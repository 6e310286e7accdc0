package model

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"seadtrain/model/safetensors"
	"seadtrain/torch"
)

func sqrt(n int) float64 { return math.Sqrt(float64(n)) }

var storedTypes = map[torch.DType]safetensors.DType{torch.F32: safetensors.F32, torch.BF16: safetensors.BF16, torch.F16: safetensors.F16}
var configTypes = map[torch.DType]string{torch.F32: "float32", torch.BF16: "bfloat16", torch.F16: "float16"}

// SaveOptions say how a checkpoint is written.
type SaveOptions struct {
	DType    torch.DType // of the file
	MaxShard int64       // bytes per file; 0: one file
	// Tensors replaces the weights (the fp32 masters, say): one per leaf, in the order of Leaves. Nil: the model's own.
	Tensors []*torch.Tensor
}

// Save writes a Hugging Face directory: config.json and safetensors. All ranks of the tensor-parallel group call it; rank
// 0 writes. Not atomic as a whole: the caller renames the directory when it is complete.
func (m *Model) Save(dir string, o SaveOptions) error {
	if m.source != nil {
		return fmt.Errorf("save model: %w", errTwin)
	}
	sources, free, err := m.sources(o) // first: all ranks take part, whatever rank 0 meets on its disk
	defer free()
	if err != nil || m.tp.Rank() != 0 {
		return err
	}
	c := m.Config.Clone()
	c.DType = configTypes[o.DType]
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("save model: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), c.JSON(), 0o644); err != nil {
		return fmt.Errorf("save model: %w", err)
	}
	return safetensors.WriteDir(dir, sources, o.MaxShard)
}

// sources lists the checkpoint's tensors. On one rank they are converted as they are written; on several they are
// gathered first, since every rank must take part; rank 0 keeps them.
func (m *Model) sources(o SaveOptions) (list []safetensors.Source, free func(), err error) {
	var held []*torch.Tensor
	free = func() {
		_ = torch.Do(func() {
			for _, t := range held {
				t.Free()
			}
		})
	}
	for li, l := range m.Leaves() {
		src := l.Tensor
		if o.Tensors != nil {
			src = o.Tensors[li]
		}
		leaf := *l
		leaf.Tensor = src
		for i, p := range l.Parts {
			whole := func() *torch.Tensor { return m.whole(&leaf, i).To(o.DType, torch.CPU).Contiguous() }
			var kept *torch.Tensor
			if m.tp.Size() > 1 {
				err = torch.Do(func() {
					if t := whole(); m.tp.Rank() == 0 {
						kept = t.Keep()
						held = append(held, kept)
					}
				})
				if err != nil {
					return nil, free, fmt.Errorf("save model: %s: %w", p.Name, err)
				}
			}
			list = append(list, safetensors.Source{Name: p.Name, DType: storedTypes[o.DType], Shape: p.Shape, Write: func(w io.Writer) error {
				return torch.Try(func() error {
					t := kept
					if t == nil {
						t = whole()
					}
					_, err := w.Write(t.Bytes())
					return err
				})
			}})
		}
	}
	return list, free, nil
}

// whole gathers one part from all ranks.
func (m *Model) whole(l *Leaf, part int) *torch.Tensor {
	t := l.View(part, m.tp.Size()).Detach()
	if m.tp.Size() == 1 || l.Shard == Replicated {
		return t
	}
	all := m.tp.AllGather(t.Contiguous()) // [ranks, …]
	shape := make([]int64, len(l.Parts[part].Shape))
	for i, n := range l.Parts[part].Shape {
		shape[i] = int64(n)
	}
	if l.Shard == Cols { // [ranks, rows, cols] → [rows, ranks·cols]
		all = all.Transpose(0, 1)
	}
	return all.Reshape(shape...)
}
