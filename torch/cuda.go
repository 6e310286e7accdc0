package torch

/*
#include "seadnative.h"
*/
import "C"

// OpenCUDA loads the CUDA plugin, libseadnative_cuda.so beside libseadnative.so, and with it libtorch's CUDA libraries.
// The error says what is missing: the plugin, a library, or a device. Opening twice does nothing.
func OpenCUDA() error {
	return Do(func() { check("cuda_open", C.sn_cuda_open(nil)) })
}

// CUDADevices is the number of GPUs; 0 before OpenCUDA.
func CUDADevices() int { return int(C.sn_cuda_devices()) }

// Memory is the memory of one device, in bytes.
type Memory struct {
	Allocated, AllocatedPeak, Reserved int64 // by this process' tensors, and with what the allocator holds back
	Available, Total                   int64 // of the whole device
}

// CUDAMemory reads the memory counters of a GPU. Inside Do.
func CUDAMemory(device int) Memory {
	var m C.sn_memory
	check("cuda_memory", C.sn_cuda_memory(C.int(device), &m))
	return Memory{int64(m.allocated), int64(m.allocated_peak), int64(m.reserved), int64(m.available), int64(m.total)}
}
