// What the callers of the fused kernels share.
#pragma once
#include <ATen/Parallel.h>

#include "guard.h"

namespace sead {

inline bool fused(const at::Tensor& t) { return t.is_cpu() && t.scalar_type() == at::kFloat; }

// About 32k elements keep a thread busy for longer than waking it takes.
inline int64_t grain(int64_t per_row) { return std::max<int64_t>(1, 32768 / std::max<int64_t>(1, per_row)); }

// Meta tensors have a shape and no numbers. Where ATen has no Meta kernel, this stands in: a tensor of that shape (and of
// the first input's dtype), whose gradients have the inputs' shapes.
at::Tensor only_shape(std::vector<int64_t> shape, at::TensorList inputs);

}  // namespace sead
