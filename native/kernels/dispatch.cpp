#include <cstdlib>
#include <cstring>

#include "kernels.h"

namespace sead {

// Asks for every extension that kernels/isa.cpp is compiled with.
bool supported(const Kernels& k) {
  if (&k == &kernels_avx512)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("fma");
  return &k != &kernels_avx2 || (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
}

// SEAD_ISA=generic|avx2|avx512 in the environment forces a lower set, for tests.
static const Kernels& choose() {
  const char* want = std::getenv("SEAD_ISA");
  const auto allowed = [&](const char* name) { return !want || !*want || std::strcmp(want, name) == 0; };
  for (const auto* k : {&kernels_avx512, &kernels_avx2})
    if (allowed(k->name) && supported(*k)) return *k;
  return kernels_generic;
}

const Kernels& kernels() {
  static const Kernels& k = choose();
  return k;
}

}  // namespace sead
