package train

import (
	"errors"
	"fmt"
	"math"

	"seadtrain/model"
	"seadtrain/torch"
)

// OptimizerConfig is AdamW (Loshchilov & Hutter 2019) with clipping by the global norm and one warm-up per run.
type OptimizerConfig struct {
	LR          float64 `toml:"lr"`            // peak learning rate
	Beta1       float64 `toml:"beta1"`         // decay of the first moment
	Beta2       float64 `toml:"beta2"`         // decay of the second moment
	Eps         float64 `toml:"eps"`           // added to the root of the second moment
	WeightDecay float64 `toml:"weight_decay"`  // decoupled, on every weight, as torch.optim.AdamW does
	MaxGradNorm float64 `toml:"max_grad_norm"` // 0: no clipping
	Warmup      float64 `toml:"warmup"`        // share of all optimizer steps, in [0, 1), over which the rate rises from lr/steps
	Schedule    string  `toml:"schedule"`      // after warm-up: "constant", "cosine" or "linear" to MinLR
	MinLR       float64 `toml:"min_lr"`        // where cosine and linear end
}

// DefaultOptimizer holds the paper's settings.
func DefaultOptimizer() OptimizerConfig {
	return OptimizerConfig{LR: 1e-6, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.01, MaxGradNorm: 1, Warmup: 0.1, Schedule: "constant"}
}

// Validate reports all errors at once.
func (c *OptimizerConfig) Validate() error {
	var errs []error
	in := func(name string, v, lo, hi float64) {
		if !(v >= lo && v <= hi) {
			errs = append(errs, fmt.Errorf("%s is %v: want %v to %v", name, v, lo, hi))
		}
	}
	in("lr", c.LR, 0, 1)
	in("beta1", c.Beta1, 0, 0.999999)
	in("beta2", c.Beta2, 0, 0.999999)
	in("eps", c.Eps, 1e-16, 1)
	in("weight_decay", c.WeightDecay, 0, 1)
	in("max_grad_norm", c.MaxGradNorm, 0, math.MaxFloat64)
	in("warmup", c.Warmup, 0, 0.99)
	highest := c.LR
	if !(c.LR >= 0 && c.LR <= 1) { // that has its own message
		highest = 1
	}
	in("min_lr", c.MinLR, 0, highest)
	if c.Schedule != "constant" && c.Schedule != "cosine" && c.Schedule != "linear" {
		errs = append(errs, fmt.Errorf("schedule is %q: want constant, cosine or linear", c.Schedule))
	}
	return errors.Join(errs...)
}

// Rate is the learning rate of optimizer step s of total, both counted from 1: never 0 in the first step.
func (c *OptimizerConfig) Rate(s, total int64) float64 {
	warm := int64(math.Ceil(c.Warmup * float64(total)))
	if s <= warm {
		return c.LR * float64(s) / float64(warm)
	}
	if c.Schedule == "constant" || total <= warm {
		return c.LR
	}
	f := math.Min(1, float64(s-warm)/float64(total-warm))
	if c.Schedule == "cosine" {
		f = (1 - math.Cos(math.Pi*f)) / 2
	}
	return c.LR + (c.MinLR-c.LR)*f
}

// Optimizer holds fp32 masters (the weights themselves when they are fp32) and moments.
type Optimizer struct {
	Config OptimizerConfig
	Total  int64 // optimizer steps of the whole run, for the schedule
	Step   int64 // steps done

	m           *model.Model
	masters, m1 []*torch.Tensor
	m2          []*torch.Tensor
	sharded     []bool // per leaf: split over tensor-parallel ranks, so the norm is a sum over them
	ownMasters  bool
}

// NewOptimizer starts with zero moments.
func NewOptimizer(m *model.Model, c OptimizerConfig, total int64) (*Optimizer, error) {
	o := &Optimizer{Config: c, Total: total, m: m, ownMasters: m.DType != torch.F32}
	err := torch.Do(func() {
		for _, l := range m.Leaves() {
			w := l.Tensor.Detach().Keep()
			if o.ownMasters {
				w.Free()
				w = l.Tensor.Detach().To(torch.F32, m.Device).Keep()
			}
			o.masters = append(o.masters, w)
			o.m1 = append(o.m1, torch.Zeros(torch.F32, m.Device, w.Shape()...).Keep())
			o.m2 = append(o.m2, torch.Zeros(torch.F32, m.Device, w.Shape()...).Keep())
			o.sharded = append(o.sharded, l.Shard != model.Replicated)
		}
	})
	return o, err
}

// Masters are the fp32 weights, in the order of the model's leaves.
func (o *Optimizer) Masters() []*torch.Tensor { return o.masters }

// GradNorm is the global norm over all weights and tensor-parallel ranks.
func (o *Optimizer) GradNorm(grads []*torch.Tensor) float64 {
	var split, whole []*torch.Tensor
	for i, g := range grads {
		if o.sharded[i] {
			split = append(split, g)
		} else {
			whole = append(whole, g)
		}
	}
	s := o.m.TP().SumFloats([]float64{torch.SumSquares(split)})[0]
	return math.Sqrt(s + torch.SumSquares(whole))
}

// Apply clips and takes one step; gradients that are not finite leave everything as it was. Inside torch.Do.
func (o *Optimizer) Apply(grads []*torch.Tensor) (norm, lr float64, err error) {
	norm = o.GradNorm(grads)
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return norm, 0, fmt.Errorf("optimizer step %d: the gradient's norm is %v; weights are unchanged", o.Step+1, norm)
	}
	if c := o.Config.MaxGradNorm; c > 0 && norm > c {
		torch.ScaleAll(grads, c/(norm+1e-6)) // as torch.nn.utils.clip_grad_norm_
	}
	o.Step++
	c := o.Config
	lr = c.Rate(o.Step, o.Total)
	torch.AdamW{LR: lr, Beta1: c.Beta1, Beta2: c.Beta2, Eps: c.Eps, WeightDecay: c.WeightDecay}.Step(o.masters, grads, o.m1, o.m2, o.Step)
	o.publish()
	return norm, lr, nil
}

// publish copies the masters into the weights, if they are not the same memory.
func (o *Optimizer) publish() {
	if !o.ownMasters {
		return
	}
	var w []*torch.Tensor
	for _, l := range o.m.Leaves() {
		w = append(w, l.Tensor)
	}
	torch.CopyAll(w, o.masters)
}

// Close frees masters and moments.
func (o *Optimizer) Close() {
	for i := range o.masters {
		o.masters[i].Free()
		o.m1[i].Free()
		o.m2[i].Free()
	}
}
