// The boundary: no C++ exception leaves the library, and every error carries its own message.
#pragma once
#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <new>

#include "seadnative.h"

namespace sead {

inline at::Tensor& T(sn_tensor t) {
  TORCH_CHECK_VALUE(t, "use of a tensor that was freed");
  return *static_cast<at::Tensor*>(t);
}
sn_tensor give(at::Tensor t);  // wraps and counts

// fail turns the exception in flight into a status; it is called from a catch (...) block only.
sn_status fail() noexcept;

inline at::IntArrayRef shape_of(const int64_t* s, int n) { return at::IntArrayRef(s, static_cast<size_t>(n)); }
at::ScalarType to_dtype(int code);
int from_dtype(at::ScalarType t);
at::Device to_device(int code);

inline std::vector<at::Tensor> list(sn_tensor* t, int n) {
  std::vector<at::Tensor> v;
  v.reserve(n);
  for (int i = 0; i < n; i++) v.push_back(T(t[i]));
  return v;
}

}  // namespace sead

#define GUARD(...)                   \
  try {                              \
    __VA_ARGS__;                     \
    return sn_status{SN_OK, nullptr}; \
  } catch (...) {                    \
    return sead::fail();             \
  }
