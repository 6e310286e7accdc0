package torch

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"seadtrain/internal/testenv"
)

// block is one transformer layer of this package's functions: norm, fused qkv, rope, attention, output, norm, SwiGLU MLP.
type block struct {
	h, kv, d                             int64
	params                               []*Tensor
	norm1, qkv, out, norm2, gateUp, down *Tensor
	cos, sin                             *Tensor
}

func newBlock(dev Device, width, h, kv int64) *block {
	b := &block{h: h, kv: kv, d: width / h}
	param := func(shape ...int64) *Tensor {
		w := Randn(uint64(len(b.params)), F32, dev, shape...).MulScalar(1 / math.Sqrt(float64(width))).Detach().RequireGrad(true)
		b.params = append(b.params, w)
		return w
	}
	b.norm1, b.qkv, b.out = param(width), param((h+2*kv)*b.d, width), param(width, width)
	b.norm2, b.gateUp, b.down = param(width), param(6*width, width), param(width, 3*width)
	b.cos, b.sin = Randn(1, F32, dev, 512, b.d/2), Randn(2, F32, dev, 512, b.d/2)
	return b
}

func (b *block) forward(x *Tensor, cu []int64) *Tensor {
	n := x.Dim(0)
	qkv := Linear(RMSNorm(x, b.norm1, 1e-6), b.qkv, nil)
	part := func(from, heads int64) *Tensor { return qkv.Narrow(1, from*b.d, heads*b.d).Reshape(n, heads, b.d) }
	pos := Arange(n, I64, x.Device())
	q, k := Rope(part(0, b.h), b.cos, b.sin, pos), Rope(part(b.h, b.kv), b.cos, b.sin, pos)
	a := PackedAttention(q, k, part(b.h+b.kv, b.kv), cu, 1/math.Sqrt(float64(b.d)))
	x = x.Add(Linear(a.Reshape(n, -1), b.out, nil))
	return x.Add(Linear(SwiGLU(Linear(RMSNorm(x, b.norm2, 1e-6), b.gateUp, nil)), b.down, nil))
}

// trainer is layers of block with their optimizer state, all kept.
type trainer struct {
	layers             []*block
	params, m, v, kept []*Tensor
}

func newTrainer(layers int) *trainer {
	tr := &trainer{}
	for range layers {
		b := newBlock(CPU, 64, 4, 2)
		tr.layers = append(tr.layers, b)
		tr.params = append(tr.params, b.params...)
		tr.kept = append(tr.kept, b.cos.Keep(), b.sin.Keep())
	}
	for _, p := range tr.params {
		m, v := Zeros(F32, CPU, p.Shape()...), Zeros(F32, CPU, p.Shape()...)
		tr.m, tr.v = append(tr.m, m), append(tr.v, v)
		tr.kept = append(tr.kept, p.Keep(), m.Keep(), v.Keep())
	}
	return tr
}

func (tr *trainer) free() {
	for _, t := range tr.kept {
		t.Free()
	}
}

// step is one training step; its loss is the mean square of what the layers make of noise.
func (tr *trainer) step(step int64) (loss float64) {
	const n = 96
	var grads []*Tensor
	WithGrad(func() {
		x := Randn(uint64(step), F32, CPU, n, 64)
		for _, l := range tr.layers {
			x = l.forward(x, []int64{0, 30, 31, n})
		}
		l := x.Square().SumAll().MulScalar(1. / n)
		loss = l.Item()
		grads = Grad([]*Tensor{l}, nil, tr.params)
	})
	ScaleAll(grads, 1/math.Max(1, math.Sqrt(SumSquares(grads))))
	AdamW{LR: 1e-2, Beta1: .9, Beta2: .999, Eps: 1e-8, WeightDecay: .01}.Step(tr.params, grads, tr.m, tr.v, step)
	return loss
}

// resident is the process' resident memory in bytes, once Go has given back what it does not use.
func resident(t *testing.T) int64 {
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		testenv.Missing(t, "%v", err)
	}
	var size, pages int64
	if _, err := fmt.Fscan(bytes.NewReader(b), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// growth is by how much 200 repetitions of f raise resident memory, once 40 have warmed up the allocators.
func growth(t *testing.T, f func(step int64)) int64 {
	var before int64
	for step := range int64(240) {
		if step == 40 {
			before = resident(t)
		}
		do := func() { f(step + 1) }
		if err := Do(do); err != nil {
			t.Fatal(err)
		}
	}
	return resident(t) - before
}

const maxGrowth = 4 << 20

// A training step of three layers, 200 times: resident memory stays flat, the loss falls and no handle is left.
func TestTrainingStepsStayFlat(t *testing.T) {
	before := Live()
	var tr *trainer
	if err := Do(func() { tr = newTrainer(3) }); err != nil {
		t.Fatal(err)
	}
	defer func() {
		tr.free()
		if n := Live(); n != before {
			t.Errorf("%d handles are left, %d before", n, before)
		}
	}()
	losses := make([]float64, 241)
	grown := growth(t, func(step int64) { losses[step] = tr.step(step) })
	t.Logf("loss %.3f to %.3f, resident memory %+d KiB", losses[1], losses[240], grown>>10)
	if grown > maxGrowth {
		t.Errorf("200 steps raise resident memory by %d KiB", grown>>10)
	}
	if !(losses[240] < losses[1]/2) {
		t.Error("the loss does not fall")
	}
}

// The measurement above sees a leak of one tensor of 512 KiB a step (100 MiB): more than earlier tests may have left free in
// the heap, where smaller leaks hide at first.
func TestLeakIsSeen(t *testing.T) {
	var lost []*Tensor
	grown := growth(t, func(int64) { lost = append(lost, Full(1, F32, CPU, 128<<10).Keep()) })
	for _, x := range lost {
		x.Free()
	}
	if grown < 2*maxGrowth {
		t.Errorf("a leak of 100 MiB shows as %d KiB", grown>>10)
	}
}

// A kept tensor that is forgotten is reported with the place where it was kept; a freed one is not.
func TestDetectLeaks(t *testing.T) {
	found := make(chan string, 10)
	defer leaks.Store(leaks.Load())
	DetectLeaks(func(s string) { found <- s })
	before := Live()
	var again Tensor // by which what is lost on purpose is freed in the end
	if err := Do(func() {
		Zeros(F32, CPU, 2).Keep().Free()
		again = *Zeros(F32, CPU, 3).Keep()
	}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline) && len(found) == 0; time.Sleep(10 * time.Millisecond) {
		runtime.GC()
	}
	if n := Live() - before; n != 1 {
		t.Errorf("%d handles are left, want the lost one", n)
	}
	again.Free()
	select {
	case s := <-found:
		if !strings.Contains(s, "memory_test.go:") || len(found) > 0 {
			t.Error(s, len(found))
		}
	default:
		t.Error("the lost tensor is not reported")
	}
}

func TestCheckLeaks(t *testing.T) {
	defer leaks.Store(leaks.Load())
	var left *Tensor
	code := CheckLeaks(func() int {
		if err := Do(func() { left = Zeros(F32, CPU, 1).Keep() }); err != nil {
			t.Error(err)
		}
		return 0
	})
	left.Free()
	if again := CheckLeaks(func() int { return 0 }); code != 1 || again != 0 {
		t.Errorf("exit %d with a tensor left, want 1; %d with none, want 0", code, again)
	}
}
