// The table of functions that the CUDA plugin gives to libseadnative. Everything that a device needs no CUDA header for
// (tensor ops, copies, device choice) goes through ATen; here is the rest.
#pragma once
#include "../seadnative.h"

extern "C" {

typedef struct {
  int version;  // kCudaPluginVersion of the plugin's build
  int (*devices)(void);
  sn_status (*memory)(int device, sn_memory* out);
  // Capture of a graph on the calling thread, on a stream of its own until end. The tensors that the captured work reads
  // and writes must live as long as the graph.
  sn_status (*graph_begin)(int device, void** graph);
  sn_status (*graph_end)(void* graph);
  sn_status (*graph_replay)(void* graph);
  void (*graph_free)(void* graph);
  // cudaStream_t and cudaEvent_t as plain pointers, for NCCL: launch on the current stream, poll an event for the deadline.
  sn_status (*stream)(int device, void** stream);
  sn_status (*event_new)(void** event);
  sn_status (*event_record)(void* event, void* stream);
  sn_status (*event_done)(void* event, int* done);
  void (*event_free)(void* event);
} sn_cuda_table;

// The plugin's only symbol.
const sn_cuda_table* sn_cuda_plugin(void);
}

constexpr int kCudaPluginVersion = 1;
