// Lifetime, factories, inspection and the error boundary.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <torch/version.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "guard.h"
#include "kernels/kernels.h"

namespace sead {

static std::atomic<int64_t> live{0};

sn_tensor give(at::Tensor t) {
  auto* p = new at::Tensor(std::move(t));
  live.fetch_add(1, std::memory_order_relaxed);
  return p;
}

static sn_status status(int code, const char* what) noexcept {
  char* msg = strdup(what);  // may be null when memory is out: the code still tells
  return {code, msg};
}

sn_status fail() noexcept {
  try {
    throw;
  } catch (const c10::OutOfMemoryError& e) {
    return status(SN_OUT_OF_MEMORY, e.what_without_backtrace());
  } catch (const c10::DistError& e) {
    return status(SN_DIST, e.what_without_backtrace());
  } catch (const c10::IndexError& e) {
    return status(SN_INDEX, e.what_without_backtrace());
  } catch (const c10::ValueError& e) {
    return status(SN_VALUE, e.what_without_backtrace());
  } catch (const c10::TypeError& e) {
    return status(SN_TYPE, e.what_without_backtrace());
  } catch (const c10::NotImplementedError& e) {
    return status(SN_UNSUPPORTED, e.what_without_backtrace());
  } catch (const c10::Error& e) {
    // The CPU allocator throws a plain Error: only its text tells that memory ran out.
    const char* w = e.what_without_backtrace();
    return status(strstr(w, "can't allocate memory") ? SN_OUT_OF_MEMORY : SN_ERROR, w);
  } catch (const std::bad_alloc&) {
    return status(SN_OUT_OF_MEMORY, "std::bad_alloc: no memory for a host object");
  } catch (const std::exception& e) {
    return status(SN_STD, e.what());
  } catch (...) {
    return status(SN_UNKNOWN, "unknown C++ exception");
  }
}

at::ScalarType to_dtype(int code) {
  switch (code) {
    case SN_F32: return at::kFloat;
    case SN_F64: return at::kDouble;
    case SN_BF16: return at::kBFloat16;
    case SN_F16: return at::kHalf;
    case SN_I64: return at::kLong;
    case SN_I32: return at::kInt;
    case SN_U8: return at::kByte;
    case SN_BOOL: return at::kBool;
    case SN_I8: return at::kChar;
  }
  TORCH_CHECK(false, "dtype code ", code, " is unknown");
}

int from_dtype(at::ScalarType t) {
  switch (t) {
    case at::kFloat: return SN_F32;
    case at::kDouble: return SN_F64;
    case at::kBFloat16: return SN_BF16;
    case at::kHalf: return SN_F16;
    case at::kLong: return SN_I64;
    case at::kInt: return SN_I32;
    case at::kByte: return SN_U8;
    case at::kBool: return SN_BOOL;
    case at::kChar: return SN_I8;
    default: return -1;
  }
}

at::Device to_device(int code) {
  switch (code) {
    case SN_CPU: return at::Device(at::kCPU);
    case SN_CUDA: return at::Device(at::kCUDA);
    case SN_META: return at::Device(at::kMeta);
  }
  TORCH_CHECK(false, "device code ", code, " is unknown");
}

static at::TensorOptions options(int dtype, int device) {
  return at::TensorOptions().dtype(to_dtype(dtype)).device(to_device(device));
}

// Warnings of libtorch go nowhere: what matters is an error, and stderr is the program's own.
struct Quiet : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

}  // namespace sead

using namespace sead;

extern "C" {

void sn_init(void) {
  // Symbolising a backtrace costs 5 ms an error; messages carry what is needed.
  c10::SetStackTraceFetcher(std::function<std::string()>([] { return std::string(); }));
  static auto* quiet = new Quiet;  // for good: other static objects may warn while they are destroyed
  c10::WarningUtils::set_warning_handler(quiet);
  // So does the log of its sockets, which tells in 20 lines what the error tells in one; TORCH_CPP_LOG_LEVEL brings it back.
  if (!std::getenv("TORCH_CPP_LOG_LEVEL")) FLAGS_caffe2_log_level = c10::GLOG_FATAL;
}

void sn_free_text(char* p) { free(p); }

void sn_free(sn_tensor t) {
  if (!t) return;
  delete static_cast<at::Tensor*>(t);
  live.fetch_sub(1, std::memory_order_relaxed);
}

void sn_free_many(sn_tensor* t, int n) {
  for (int i = n - 1; i >= 0; i--) sn_free(t[i]);
}

int64_t sn_live(void) { return live.load(); }

const char* sn_versions(void) { return TORCH_VERSION; }

sn_status sn_set_num_threads(int n) { GUARD(at::set_num_threads(n)) }
int sn_get_num_threads(void) { return at::get_num_threads(); }

int sn_openmp_threads(void) {
  std::atomic<int> spans{0};  // every member of the team gets one span
  at::parallel_for(0, 1 << 16, 1, [&](int64_t, int64_t) { spans.fetch_add(1); });
  return spans.load();
}

const char* sn_isa(void) { return kernels().name; }

sn_status sn_test_throw(int kind) {
  GUARD(switch (kind) {
    case 0: at::zeros({2, 3}).matmul(at::zeros({2, 3})); break;           // shape
    case 1: at::zeros({2}, at::kLong).index_select(0, at::zeros({1})); break;  // dtype
    case 2: at::empty({int64_t{1} << 50}); break;                          // out of memory
    case 3: throw std::bad_alloc();
    case 4: throw 42;
    case 5: throw std::runtime_error("a plain runtime error");
    case 6: at::zeros({2}).select(0, 7); break;                            // index
    case 7: C10_THROW_ERROR(DistBackendError, "a peer is gone");
    case 8: at::empty({2}, options(SN_F32, SN_CUDA)); break;               // a device that is not there
    default: TORCH_CHECK(false, "no such kind");
  })
}

sn_status sn_empty(const int64_t* shape, int ndim, int dtype, int device, sn_tensor* out) {
  GUARD(*out = give(at::empty(shape_of(shape, ndim), options(dtype, device))))
}
sn_status sn_full(const int64_t* shape, int ndim, double value, int dtype, int device, sn_tensor* out) {
  GUARD(*out = give(at::full(shape_of(shape, ndim), value, options(dtype, device))))
}
sn_status sn_arange(int64_t n, int dtype, int device, sn_tensor* out) {
  GUARD(*out = give(at::arange(n, options(dtype, device))))
}
sn_status sn_randn(const int64_t* shape, int ndim, uint64_t seed, int dtype, int device, sn_tensor* out) {
  GUARD({
    auto dev = to_device(device);
    if (dev.is_meta()) {
      *out = give(at::empty(shape_of(shape, ndim), options(dtype, device)));
    } else {  // always drawn on the CPU in fp32, so that a seed means the same numbers everywhere
      auto gen = at::make_generator<at::CPUGeneratorImpl>(seed);
      *out = give(at::randn(shape_of(shape, ndim), gen, at::TensorOptions().dtype(at::kFloat)).to(options(dtype, device)));
    }
  })
}
sn_status sn_from_host(const void* data, size_t nbytes, const int64_t* shape, int ndim, int dtype, sn_tensor* out) {
  GUARD({
    auto t = at::empty(shape_of(shape, ndim), options(dtype, SN_CPU));
    TORCH_CHECK(t.nbytes() == nbytes, "from_host: ", nbytes, " bytes for a tensor of ", t.nbytes());
    if (nbytes) memcpy(t.data_ptr(), data, nbytes);
    *out = give(std::move(t));
  })
}
sn_status sn_from_blob(void* data, const int64_t* shape, int ndim, int dtype, sn_tensor* out) {
  GUARD(*out = give(at::from_blob(data, shape_of(shape, ndim), options(dtype, SN_CPU))))
}
sn_status sn_to_host(sn_tensor t, void* data, size_t nbytes) {
  GUARD({
    auto c = T(t).detach().to(at::kCPU).contiguous();
    TORCH_CHECK(c.nbytes() == nbytes, "to_host: buffer of ", nbytes, " bytes for a tensor of ", c.nbytes());
    if (nbytes) memcpy(data, c.data_ptr(), nbytes);
  })
}
int sn_ndim(sn_tensor t) { return static_cast<int>(T(t).dim()); }
void sn_shape(sn_tensor t, int64_t* out) {
  auto s = T(t).sizes();
  std::copy(s.begin(), s.end(), out);
}
int sn_dtype(sn_tensor t) { return from_dtype(T(t).scalar_type()); }
int sn_device(sn_tensor t) {
  auto d = T(t).device();
  return d.is_cpu() ? SN_CPU : d.is_cuda() ? SN_CUDA : SN_META;
}
int64_t sn_numel(sn_tensor t) { return T(t).numel(); }
int sn_is_contiguous(sn_tensor t) { return T(t).is_contiguous(); }
void* sn_data_ptr(sn_tensor t) { return T(t).data_ptr(); }
sn_status sn_item(sn_tensor t, double* out) { GUARD(*out = T(t).item<double>()) }

}  // extern "C"
