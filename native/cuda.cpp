// The CUDA plugin, opened on demand. This file needs no CUDA header and no CUDA library.
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "cuda/plugin.h"
#include "guard.h"

namespace sead {

static std::atomic<const sn_cuda_table*> plugin{nullptr};

static const sn_cuda_table& cuda() {
  const auto* t = plugin.load();
  TORCH_CHECK_NOT_IMPLEMENTED(t, "CUDA is not open: the plugin was not loaded");
  return *t;
}

// Beside this library, where the build puts it.
static std::string beside() {
  Dl_info self{};
  TORCH_CHECK(dladdr(reinterpret_cast<void*>(&sn_cuda_open), &self) && self.dli_fname, "cuda_open: this library's own path is unknown");
  const std::string path = self.dli_fname;
  const auto slash = path.rfind('/');
  return (slash == std::string::npos ? "." : path.substr(0, slash)) + "/libseadnative_cuda.so";
}

// CUDA installs signal handlers without SA_ONSTACK, on which Go aborts: the ones from before come back.
class KeepSignals {
  struct sigaction was_[NSIG];

 public:
  KeepSignals() {
    for (int s = 1; s < NSIG; s++)
      if (sigaction(s, nullptr, &was_[s]) != 0) was_[s].sa_handler = SIG_ERR;
  }
  ~KeepSignals() {
    for (int s = 1; s < NSIG; s++)
      if (was_[s].sa_handler != SIG_ERR) sigaction(s, &was_[s], nullptr);
  }
};

static void open_plugin(const std::string& path) {
  TORCH_CHECK_NOT_IMPLEMENTED(access(path.c_str(), R_OK) == 0, "the CUDA plugin ", path, " is missing: run `make cuda`");
  KeepSignals keep;
  void* lib = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  TORCH_CHECK_NOT_IMPLEMENTED(lib, "the CUDA plugin cannot be loaded, a library of CUDA is missing: ", dlerror());
  const auto get = reinterpret_cast<const sn_cuda_table* (*)()>(dlsym(lib, "sn_cuda_plugin"));
  TORCH_CHECK_NOT_IMPLEMENTED(get, path, " is no CUDA plugin of this program");
  const auto* t = get();
  TORCH_CHECK_NOT_IMPLEMENTED(t->version == kCudaPluginVersion, path, " has version ", t->version, ", this program needs ", kCudaPluginVersion,
                              ": build it again");
  TORCH_CHECK_NOT_IMPLEMENTED(t->devices() > 0, "no CUDA device: the driver is missing, too old, or shows none");
  plugin = t;  // and is never closed: libtorch does not survive that
}

}  // namespace sead

using namespace sead;

extern "C" {

sn_status sn_cuda_open(const char* path) {
  GUARD(if (!plugin.load()) open_plugin(path ? path : beside()))
}
int sn_cuda_devices(void) {
  const auto* t = plugin.load();
  return t ? t->devices() : 0;
}
sn_status sn_cuda_memory(int device, sn_memory* out) {
  GUARD({
    const auto st = cuda().memory(device, out);
    if (st.code) return st;
  })
}

}  // extern "C"
