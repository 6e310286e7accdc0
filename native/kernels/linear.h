// y = x·wᵀ of few rows: what generation does for every token. The weights are read once, as they lie, in fp32, bf16 or int8
// with a scale per output; sums are fp32. MKL's sgemm packs its operands first, which pays only for many rows.
// An output is one sum over k in W lanes, folded pairwise: the same bits for every number of rows and every tile.
#pragma once
#include <immintrin.h>

#include "ahead.h"
#include "kernels.h"
#include "simd.h"

namespace sead::SEAD_ISA {

typedef float v4 __attribute__((vector_size(16)));

inline vf widen(const float* p) { return load(p); }
inline float widen1(const float* p) { return *p; }
inline float widen1(const uint16_t* p) {  // bf16: the upper half of a float
  const uint32_t u = static_cast<uint32_t>(*p) << 16;
  float f;
  std::memcpy(&f, &u, sizeof f);
  return f;
}
inline float widen1(const int8_t* p) { return *p; }
// GCC makes scalar code of its vector conversions from narrow types: intrinsics where there are some.
#if SEAD_VW == 16
inline vf widen(const uint16_t* p) { return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)), 16); }
inline vf widen(const int8_t* p) { return (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p))); }
#elif SEAD_VW == 8
inline vf widen(const uint16_t* p) { return (vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)), 16); }
inline vf widen(const int8_t* p) { return (vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p))); }
#else
template <class T>
inline vf widen(const T* p) {
  float f[W];
  for (int i = 0; i < W; i++) f[i] = widen1(p + i);
  return load(f);
}
#endif

inline v4 fold(vf v) {
#if SEAD_VW == 4
  return v;
#elif SEAD_VW == 8
  return __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
#else
  return (__builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 8, 9, 10, 11)) +
         (__builtin_shufflevector(v, v, 4, 5, 6, 7) + __builtin_shufflevector(v, v, 12, 13, 14, 15));
#endif
}

// The sums of the lanes of four vectors.
inline v4 sums(vf a, vf b, vf c, vf d) {
  const v4 x = fold(a), y = fold(b), z = fold(c), u = fold(d);
  const v4 p = __builtin_shufflevector(x, y, 0, 4, 1, 5) + __builtin_shufflevector(x, y, 2, 6, 3, 7);
  const v4 q = __builtin_shufflevector(z, u, 0, 4, 1, 5) + __builtin_shufflevector(z, u, 2, 6, 3, 7);
  return __builtin_shufflevector(p, q, 0, 1, 4, 5) + __builtin_shufflevector(p, q, 2, 3, 6, 7);
}

inline v4 load4(const float* p) {
  v4 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

constexpr int kXRows = W == 16 ? 6 : 3;  // with four rows of w: as many as leave registers for the loads

// nx rows of x against nw of w, one or four.
template <int nx, int nw, class T>
inline void linear_tile(const float* x, const T* w, const float* scale, const float* bias, float* y, int64_t n, int64_t k, Ahead ahead) {
  vf acc[nx][4] = {};
  const int64_t per = (ahead.lines * W + k - 1) / k;
  int64_t i = 0;
  for (; i + W <= k; i += W) {
    ahead.take(per);
    vf b[nx];
    for (int s = 0; s < nx; s++) b[s] = load(x + s * k + i);
    for (int r = 0; r < nw; r++) {
      const vf a = widen(w + r * k + i);
      for (int s = 0; s < nx; s++) acc[s][r] += a * b[s];
    }
  }
  for (; i < k; i++)
    for (int r = 0; r < nw; r++)
      for (int s = 0; s < nx; s++) acc[s][r][0] += rounded(widen1(w + r * k + i) * x[s * k + i]);
  for (int s = 0; s < nx; s++) {
    v4 t = sums(acc[s][0], acc[s][1], acc[s][2], acc[s][3]);
    if constexpr (nw == 4) {
      if (scale) t = rounded(t * load4(scale));
      if (bias) t += load4(bias);
      std::memcpy(y + s * n, &t, sizeof t);
    } else {
      y[s * n] = rounded(t[0] * (scale ? *scale : 1)) + (bias ? *bias : 0);
    }
  }
}

// One tile, of nx rows from row on, against nw outputs from j on.
template <int nw, class T, int nx = kXRows>
inline void linear_some(const Linear& l, int64_t row, int64_t count, int64_t j, const Ahead& ahead) {
  if (count == nx)
    linear_tile<nx, nw>(l.x + row * l.k, static_cast<const T*>(l.w) + j * l.k, l.scale ? l.scale + j : nullptr,
                        l.bias ? l.bias + j : nullptr, l.y + row * l.n + j, l.n, l.k, ahead);
  else if constexpr (nx > 1)
    linear_some<nw, T, nx - 1>(l, row, count, j, ahead);
}

// Rows [row, end) against nw outputs, which stay in the L1 cache; the first rows ask for the next outputs' weights ahead.
// What is left at the end is two tiles of about one size, rather than a full one and a single row.
template <int nw, class T>
inline void linear_rows(const Linear& l, int64_t row, int64_t end, int64_t j) {
  const int64_t lines = row > 0 ? 0 : nw * l.k * static_cast<int64_t>(sizeof(T)) / 64, tiles = (end - row + kXRows - 1) / kXRows;
  const char* next = reinterpret_cast<const char*>(static_cast<const T*>(l.w) + (j + nw) * l.k);
  for (int64_t t = 0; row < end; t++) {
    const int64_t left = end - row, count = left <= kXRows ? left : left < 2 * kXRows ? (left + 1) / 2 : kXRows;
    const int64_t from = t * lines / tiles, to = (t + 1) * lines / tiles;
    linear_some<nw, T>(l, row, count, j, {next + from * 64, to - from});
    row += count;
  }
}

// As many rows of x at a time as stay in the L2 cache beside a unit's weights.
template <class T>
inline void linear_of(const Linear& l, int64_t from, int64_t to) {
  for (int64_t row = 0; row < l.rows; row += 8 * kXRows) {
    const int64_t end = row + 8 * kXRows < l.rows ? row + 8 * kXRows : l.rows;
    int64_t j = from;
    for (; j + 4 <= to; j += 4) linear_rows<4, T>(l, row, end, j);
    for (; j < to; j++) linear_rows<1, T>(l, row, end, j);
  }
}

void linear(const Linear& l, int64_t from, int64_t to) {
  switch (l.type) {
    case Linear::f32: return linear_of<float>(l, from, to);
    case Linear::bf16: return linear_of<uint16_t>(l, from, to);
    case Linear::i8: return linear_of<int8_t>(l, from, to);
  }
}

}  // namespace sead::SEAD_ISA
