package rollout

import (
	"slices"
	"testing"

	"seadtrain/model"
	"seadtrain/torch"
)

func TestProbeSizes(t *testing.T) {
	if got, want := probeSizes(20), []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 20}; !slices.Equal(got, want) {
		t.Errorf("sizes %v, want %v", got, want)
	}
}

// Products that do depend on the number of rows, on the place of a row, or on nothing, are found out.
func TestProbeFindsDependence(t *testing.T) {
	w := func(x *torch.Tensor) *torch.Tensor { return x.MulScalar(2) }
	for _, c := range []struct {
		name    string
		product func(x *torch.Tensor) *torch.Tensor
		found   int
	}{
		{"independent", w, 0},
		{"another kernel below 13 rows", func(x *torch.Tensor) *torch.Tensor {
			if x.Dim(0) < 13 {
				return x.MulScalar(2.0000002)
			}
			return w(x)
		}, 12},
		{"each number of rows gives other bits", func(x *torch.Tensor) *torch.Tensor { return x.MulScalar(1 + 1e-3*float64(x.Dim(0))) }, 96},
		{"the last row is special", func(x *torch.Tensor) *torch.Tensor {
			y := w(x)
			y.Narrow(0, x.Dim(0)-1, 1).MulScalarInPlace(3)
			return y
		}, 96},
	} {
		if err := torch.Do(func() {
			if got := dependentRows(4, 100, c.product); got != c.found {
				t.Errorf("%s: found with %d rows, want %d", c.name, got, c.found)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// Real weights pass with one thread and with two, and the number of threads is left alone.
func TestCheckInvariant(t *testing.T) {
	m := tiny(t, "qwen2_untied")
	defer torch.SetNumThreads(1)
	for _, threads := range []int{1, 2} {
		torch.SetNumThreads(threads)
		if err := checkInvariant(m, 700); err != nil {
			t.Error(err)
		}
		if n := torch.NumThreads(); n != threads {
			t.Errorf("the probe leaves %d threads, there were %d", n, threads)
		}
	}
	half, err := model.Load("../model/testdata/tiny/qwen2_untied", model.Options{DType: torch.BF16})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = torch.Do(half.Close) }()
	if err := checkInvariant(half, 64); err == nil {
		t.Error("bf16 weights are taken")
	}
}
