#include <cstdlib>
#include <cstring>

#include "kernels.h"

namespace sead {

// SEAD_ISA=generic|avx2|avx512 in the environment forces a lower set, for tests.
static const Kernels& choose() {
  const char* want = std::getenv("SEAD_ISA");
  const auto allowed = [&](const char* name) { return !want || !*want || std::strcmp(want, name) == 0; };
  if (allowed("avx512") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return kernels_avx512;
  if (allowed("avx2") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kernels_avx2;
  return kernels_generic;
}

const Kernels& kernels() {
  static const Kernels& k = choose();
  return k;
}

}  // namespace sead
