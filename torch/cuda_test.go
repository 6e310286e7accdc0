package torch

import (
	"strings"
	"testing"
)

func TestOpenCUDA(t *testing.T) {
	before := Live()
	err := OpenCUDA()
	if err == nil {
		if CUDADevices() < 1 {
			t.Error("open, and no device")
		}
		do(t, func() {
			x := Full(2, F32, CUDA, 1000)
			if m := CUDAMemory(0); m.Allocated < 4000 || m.Total < m.Available {
				t.Errorf("%+v", m)
			}
			if v := x.SumAll().Item(); v != 2000 {
				t.Error(v)
			}
		})
		return
	}
	// Which of the three is missing depends on the machine.
	known := false
	for _, part := range []string{"libseadnative_cuda.so", "libtorch_cuda.so", "no CUDA device", "cannot open shared object file"} {
		known = known || strings.Contains(err.Error(), part)
	}
	if e, ok := err.(*Error); !ok || e.Code != CodeUnsupported || !known {
		t.Errorf("not a clear error: %v", err)
	}
	t.Log(err)
	if CUDADevices() != 0 || Live() != before {
		t.Errorf("%d devices, %d handles, %d before", CUDADevices(), Live(), before)
	}
	fails(t, CodeUnsupported, func() { CUDAMemory(0) })
	fails(t, CodeUnsupported, func() { Zeros(F32, CUDA, 1) })
}
