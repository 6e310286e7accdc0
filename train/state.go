package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"seadtrain/model/safetensors"
	"seadtrain/torch"
)

// optimizerState is what does not fit a tensor.
type optimizerState struct {
	Step  int64 `json:"step"`
	Total int64 `json:"total"`
}

func (o *Optimizer) files(dir string) (tensors, numbers string) {
	rank := o.m.TP().Rank()
	return filepath.Join(dir, fmt.Sprintf("optimizer-%d.safetensors", rank)), filepath.Join(dir, fmt.Sprintf("optimizer-%d.json", rank))
}

// lists names the tensors of the state: masters too, also when they are the weights, since a checkpoint's weights may be
// stored in fewer bits.
func (o *Optimizer) lists() map[string][]*torch.Tensor {
	return map[string][]*torch.Tensor{"master": o.masters, "exp_avg": o.m1, "exp_avg_sq": o.m2}
}

// Save writes this rank's masters, moments and step count into dir.
func (o *Optimizer) Save(dir string) error {
	var sources []safetensors.Source
	err := torch.Do(func() {
		for _, kind := range []string{"master", "exp_avg", "exp_avg_sq"} {
			for i, l := range o.m.Leaves() {
				t := o.lists()[kind][i].To(torch.F32, torch.CPU).Contiguous().Keep()
				sources = append(sources, safetensors.Bytes(kind+"."+l.Name, safetensors.F32, ints(t.Shape()), slices.Clone(t.Bytes())))
				t.Free()
			}
		}
	})
	if err != nil {
		return fmt.Errorf("save optimizer: %w", err)
	}
	tensors, numbers := o.files(dir)
	if err := safetensors.Write(tensors, nil, sources); err != nil {
		return err
	}
	b, _ := json.Marshal(optimizerState{o.Step, o.Total})
	return os.WriteFile(numbers, append(b, '\n'), 0o644)
}

// Load restores what Save wrote, masters included, and publishes the weights.
func (o *Optimizer) Load(dir string) error {
	tensors, numbers := o.files(dir)
	var st optimizerState
	b, err := os.ReadFile(numbers)
	if err == nil {
		err = json.Unmarshal(b, &st)
	}
	if err != nil {
		return fmt.Errorf("load optimizer: %s: %w", numbers, err)
	}
	set, err := safetensors.Open(tensors)
	if err != nil {
		return fmt.Errorf("load optimizer: %w", err)
	}
	defer set.Close()
	var errs []error
	err = torch.Do(func() {
		for kind, list := range o.lists() {
			for i, l := range o.m.Leaves() {
				errs = append(errs, restore(set, kind+"."+l.Name, list[i]))
			}
		}
		o.publish()
	})
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	o.Step = st.Step
	return nil
}

func restore(set *safetensors.Set, name string, dst *torch.Tensor) error {
	t := set.Get(name)
	if t == nil {
		return fmt.Errorf("load optimizer: tensor %q is missing", name)
	}
	if t.DType != safetensors.F32 || !slices.Equal(t.Shape, ints(dst.Shape())) {
		return fmt.Errorf("load optimizer: %s: tensor %q is %s %v: want F32 %v", t.File, name, t.DType, t.Shape, dst.Shape())
	}
	v, err := t.Float32s()
	if err != nil {
		return err
	}
	dst.CopyInPlace(torch.Of(v, dst.Shape()...))
	return nil
}

func ints(s []int64) []int {
	out := make([]int, len(s))
	for i, n := range s {
		out[i] = int(n)
	}
	return out
}
