package train

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"

	"seadtrain/model/safetensors"
	"seadtrain/torch"
)

// state names the tensors of the optimizer in a fixed order: masters too, also when they are the weights, since a
// checkpoint's weights may be stored in fewer bits.
func (o *Optimizer) state() (names []string, tensors []*torch.Tensor) {
	for _, kind := range []struct {
		name string
		list []*torch.Tensor
	}{{"master", o.masters}, {"exp_avg", o.m1}, {"exp_avg_sq", o.m2}} {
		for i, l := range o.m.Leaves() {
			names, tensors = append(names, kind.name+"."+l.Name), append(tensors, kind.list[i])
		}
	}
	return names, tensors
}

// file is this tensor-parallel rank's; data-parallel ranks hold the same state, so one of them saves.
func (o *Optimizer) file(dir string) string {
	return filepath.Join(dir, fmt.Sprintf("optimizer-%d.safetensors", o.m.TP().Rank()))
}

// Save writes this rank's masters, moments and step count into dir.
func (o *Optimizer) Save(dir string) error {
	names, tensors := o.state()
	var sources []safetensors.Source
	for i, t := range tensors {
		sources = append(sources, safetensors.Source{Name: names[i], DType: safetensors.F32, Shape: ints(t.Shape()), Write: func(w io.Writer) error {
			return torch.Try(func() error {
				_, err := w.Write(t.To(torch.F32, torch.CPU).Contiguous().Bytes())
				return err
			})
		}})
	}
	meta := map[string]string{"step": strconv.FormatInt(o.Step, 10), "ranks": strconv.Itoa(o.m.TP().Size())}
	if err := safetensors.Write(o.file(dir), meta, sources); err != nil {
		return fmt.Errorf("save optimizer: %w", err)
	}
	return nil
}

// Load restores what Save wrote, masters included, and publishes the weights. Nothing is changed unless all of it fits.
func (o *Optimizer) Load(dir string) error {
	path := o.file(dir)
	set, err := safetensors.Open(path)
	if err != nil {
		return fmt.Errorf("load optimizer: %w", err)
	}
	defer set.Close()
	if err := o.load(set); err != nil {
		return fmt.Errorf("load optimizer: %s: %w", path, err)
	}
	return nil
}

func (o *Optimizer) load(set *safetensors.Set) error {
	meta := set.Metadata()
	if r := strconv.Itoa(o.m.TP().Size()); meta["ranks"] != r {
		return fmt.Errorf("saved by %q tensor-parallel ranks, this run has %s", meta["ranks"], r)
	}
	step, err := strconv.ParseInt(meta["step"], 10, 64)
	if err != nil || step < 0 {
		return fmt.Errorf("metadata: step is %q, want a number of optimizer steps", meta["step"])
	}
	names, tensors := o.state()
	var errs []error
	for i, name := range names {
		t, want := set.Get(name), ints(tensors[i].Shape())
		switch {
		case t == nil:
			errs = append(errs, fmt.Errorf("tensor %q is missing", name))
		case t.DType != safetensors.F32 || !slices.Equal(t.Shape, want):
			errs = append(errs, fmt.Errorf("tensor %q is %s %v, want F32 %v", name, t.DType, t.Shape, want))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	err = torch.Try(func() error {
		for i, name := range names {
			v, err := set.Get(name).Float32s()
			if err != nil {
				return err
			}
			torch.InScope(func() { tensors[i].CopyInPlace(torch.Of(v, tensors[i].Shape()...)) })
		}
		o.publish()
		return nil
	})
	if err == nil {
		o.Step = step
	}
	return err
}

func ints(s []int64) []int {
	out := make([]int, len(s))
	for i, n := range s {
		out[i] = int(n)
	}
	return out
}
