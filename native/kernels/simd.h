// Vectors of SEAD_VW floats by GCC's vector extension: one source for every instruction set.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

namespace sead::SEAD_ISA {

// In front of a loop over an array of vectors that must stay in registers: GCC keeps it there only if it unrolls the loop early.
#define SEAD_UNROLL _Pragma("GCC unroll 32")

constexpr int W = SEAD_VW;
typedef float vf __attribute__((vector_size(SEAD_VW * 4)));
typedef int32_t vi __attribute__((vector_size(SEAD_VW * 4)));
typedef float vfu __attribute__((vector_size(SEAD_VW * 4), aligned(4), may_alias));

inline vf load(const float* p) { return *reinterpret_cast<const vfu*>(p); }
inline void store(float* p, vf v) { *reinterpret_cast<vfu*>(p) = v; }
inline vf splat(float x) { return x - vf{}; }

// A value that is in a register here, once: GCC may not load it again for every use.
template <class V>
inline V held(V v) {
#ifdef __AVX512F__
  asm("" : "+v"(v));
#else
  asm("" : "+x"(v));
#endif
  return v;
}

// A product that is rounded here, whatever is added to it: of a·b + c·d the compiler may fuse either half, and it need not
// choose alike in two copies of a template.
template <class V>
inline V rounded(V v) {
  return held(v);
}

// Lanes are added pairwise, always in the same order.
inline float sum(vf v) {
  float a[W];
  store(a, v);
  for (int n = W / 2; n > 0; n /= 2)
    for (int i = 0; i < n; i++) a[i] += a[i + n];
  return a[0];
}
inline float max(vf v) {
  float a[W];
  store(a, v);
  for (int n = W / 2; n > 0; n /= 2)
    for (int i = 0; i < n; i++) a[i] = a[i + n] > a[i] ? a[i + n] : a[i];
  return a[0];
}

// e^x to about 1 ulp for x in [-87, 88]; exactly 0 below. Range reduction by ln 2 in two parts, polynomial of degree 7.
inline vf exp(vf x) {
  const vf x0 = x;
  x = x > splat(88.0f) ? splat(88.0f) : x;
  x = x < splat(-87.0f) ? splat(-87.0f) : x;
  const vf magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const vf n = (x * splat(1.44269504088896341f) + magic) - magic;
  vf r = x - n * splat(0.693359375f);
  r = r - n * splat(-2.12194440e-4f);
  vf p = splat(1.9875691500e-4f);
  p = p * r + splat(1.3981999507e-3f);
  p = p * r + splat(8.3334519073e-3f);
  p = p * r + splat(4.1665795894e-2f);
  p = p * r + splat(1.6666665459e-1f);
  p = p * r + splat(5.0000001201e-1f);
  p = p * r * r + r + splat(1.0f);
  const vi e = (__builtin_convertvector(n, vi) + 127) << 23;
  vf scale;
  std::memcpy(&scale, &e, sizeof e);
  return x0 < splat(-87.0f) ? vf{} : p * scale;
}

inline float exp(float x) { return exp(splat(x))[0]; }

}  // namespace sead::SEAD_ISA
