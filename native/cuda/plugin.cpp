// libseadnative_cuda: what needs CUDA's headers. It is dlopen'ed, only when a GPU is asked for, so that the CPU program
// needs none of CUDA's libraries. Written against libtorch's API; compiled and linked without a GPU.
#include "plugin.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <memory>

#include "../guard.h"

namespace {

int devices() { return static_cast<int>(c10::cuda::device_count()); }

sn_status memory(int device, sn_memory* out) {
  GUARD({
    c10::cuda::CUDAGuard on(static_cast<c10::DeviceIndex>(device));
    size_t available = 0, total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&available, &total));
    *out = sn_memory{};
    out->available = static_cast<int64_t>(available);
    out->total = static_cast<int64_t>(total);
    if (c10::cuda::CUDACachingAllocator::get()->initialized()) {  // no statistics before the first tensor
      const auto s = c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(device));
      out->allocated = s.allocated_bytes[0].current;
      out->allocated_peak = s.allocated_bytes[0].peak;
      out->reserved = s.reserved_bytes[0].current;
    }
  })
}

struct Graph {
  at::cuda::CUDAGraph graph;
  std::unique_ptr<c10::cuda::CUDAStreamGuard> on;  // while it is captured: the default stream cannot be
};

sn_status graph_begin(int device, void** out) {
  GUARD({
    auto g = std::make_unique<Graph>();
    g->on = std::make_unique<c10::cuda::CUDAStreamGuard>(c10::cuda::getStreamFromPool(false, static_cast<c10::DeviceIndex>(device)));
    g->graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    *out = g.release();
  })
}
sn_status graph_end(void* graph) {
  GUARD({
    auto* g = static_cast<Graph*>(graph);
    const auto on = std::move(g->on);  // the stream before comes back also when capture_end throws
    g->graph.capture_end();
  })
}
sn_status graph_replay(void* graph) { GUARD(static_cast<Graph*>(graph)->graph.replay()) }
void graph_free(void* graph) { delete static_cast<Graph*>(graph); }

sn_status stream(int device, void** out) { GUARD(*out = c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream()) }
sn_status event_new(void** out) {
  GUARD({
    cudaEvent_t e;
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    *out = e;
  })
}
sn_status event_record(void* event, void* on) {
  GUARD(C10_CUDA_CHECK(cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(on))))
}
sn_status event_done(void* event, int* done) {
  GUARD({
    const auto e = cudaEventQuery(static_cast<cudaEvent_t>(event));
    if (e != cudaErrorNotReady) C10_CUDA_CHECK(e);
    *done = e == cudaSuccess;
  })
}
void event_free(void* event) { (void)cudaEventDestroy(static_cast<cudaEvent_t>(event)); }

const sn_cuda_table table = {kCudaPluginVersion, devices,   memory,       graph_begin, graph_end,  graph_replay,
                             graph_free,         stream,    event_new,    event_record, event_done, event_free};

}  // namespace

extern "C" const sn_cuda_table* sn_cuda_plugin(void) { return &table; }
