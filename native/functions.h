// What the callers of the fused kernels share.
#pragma once
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <atomic>

#include "guard.h"

namespace sead {

inline bool fused(const at::Tensor& t) { return t.is_cpu() && t.scalar_type() == at::kFloat; }

// A node that nobody will ask for costs 3 µs: make it only if gradients are recorded. b and c may be undefined.
inline bool recorded(const at::Tensor& a, const at::Tensor& b = {}, const at::Tensor& c = {}) {
  const auto wanted = [](const at::Tensor& t) { return t.defined() && t.requires_grad(); };
  return c10::GradMode::is_enabled() && (wanted(a) || wanted(b) || wanted(c));
}

// [n, heads, d] whose rows may lie apart (q, k and v are slices of one projection); within a row the heads are dense.
inline at::Tensor rows_dense(const at::Tensor& t) {
  return (t.size(2) == 1 || t.stride(2) == 1) && (t.size(1) == 1 || t.stride(1) == t.size(2)) ? t : t.contiguous();
}

// An argument that may be null, as an undefined tensor.
inline at::Tensor maybe(sn_tensor t) { return t ? T(t) : at::Tensor(); }

// About 32k elements keep a thread busy for longer than waking it takes.
inline int64_t grain(int64_t per_row) { return std::max<int64_t>(1, 32768 / std::max<int64_t>(1, per_row)); }

// Units in neighbouring runs, one for each thread; a thread that is through with its own helps the others. body(next) runs on
// every thread and asks next() until it is n. A thread that wakes late keeps nobody waiting.
template <class Body>
void share(int64_t n, int64_t grain, const Body& body) {
  struct alignas(64) Run {
    std::atomic<int64_t> next;
    int64_t end;
  };
  constexpr int64_t kMost = 128;
  Run runs[kMost];
  const int64_t threads = std::clamp<int64_t>((n + grain - 1) / grain, 1, std::min<int64_t>(kMost, at::get_num_threads()));
  for (int64_t t = 0; t < threads; t++) runs[t].next = n * t / threads, runs[t].end = n * (t + 1) / threads;
  at::parallel_for(0, threads, 1, [&](int64_t from, int64_t) {
    int64_t tried = 0;
    body([&] {
      for (; tried < threads; tried++) {
        auto& run = runs[(from + tried) % threads];
        if (const int64_t i = run.next.fetch_add(1, std::memory_order_relaxed); i < run.end) return i;
      }
      return n;
    });
  });
}

// Rotary embedding of x [n, h, d] by tables [positions, d/2] and positions [n], wherever x is (layers.cpp).
at::Tensor rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& pos);

// Meta tensors have a shape and no numbers. Where ATen has no Meta kernel, this stands in: a tensor of that shape (and of
// the first input's dtype), whose gradients have the inputs' shapes.
at::Tensor only_shape(std::vector<int64_t> shape, at::TensorList inputs);

}  // namespace sead
