// y = x·wᵀ, for one row as for thousands. The weights come in panels of 16 outputs that lie k by k, in fp32, bf16 or int8 with
// a scale per output; plain fp32 rows are turned into panels part by part on the way. A tile keeps its sums in registers:
// numbers of x are broadcast against vectors of outputs, and the part of a panel that is in use stays in the L1 cache (Goto &
// van de Geijn 2008). An output is one sum, k after k: the same bits for every number of rows and every tile, packed or not.
#pragma once
#include <immintrin.h>

#include <algorithm>

#include "kernels.h"
#include "simd.h"

namespace sead::SEAD_ISA {

inline vf widen(const float* p) { return load(p); }
// GCC makes scalar code of its vector conversions from narrow types: intrinsics where there are some.
#if SEAD_VW == 16
inline vf widen(const uint16_t* p) { return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)), 16); }
inline vf widen(const int8_t* p) { return (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p))); }
#elif SEAD_VW == 8
inline vf widen(const uint16_t* p) { return (vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)), 16); }
inline vf widen(const int8_t* p) { return (vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p))); }
#else
inline vf widen(const uint16_t* p) {  // bf16: the upper half of a float
  const vi v = {p[0] << 16, p[1] << 16, p[2] << 16, p[3] << 16};
  return (vf)v;
}
inline vf widen(const int8_t* p) { return vf{float(p[0]), float(p[1]), float(p[2]), float(p[3])}; }
#endif

constexpr int kVectors = kPanel / W;                    // of a panel
constexpr int kSums = W == 16 ? 16 : 12;                // vectors of sums: as many as leave registers for the loads
constexpr int kXRows = W == 16 ? 8 : kSums / kVectors;  // of a tile, at most
constexpr int64_t kDepth = W == 16 ? 256 : 320;         // k's of a part, at most, when there are several tiles
constexpr int kXBlock = 40 * kXRows;                    // rows whose part stays in the L2 cache

// The size of parts of k that are about equal.
inline int64_t depth(int64_t k) {
  const int64_t parts = std::max<int64_t>(1, (k + kDepth - 1) / kDepth);
  return (k + parts - 1) / parts;
}

// Two panels at a time when few rows leave room for their sums.
constexpr int panels_of(int64_t rows) { return rows * kVectors * 2 <= kSums ? 2 : 1; }

// A part of k of some rows of x, against panels that lie `apart` elements from each other.
template <class T>
struct Part {
  const float* x;  // with l.k to the next row
  const T* w;
  int64_t apart, count;
  float* y;            // with l.n to the next row
  int64_t left;        // outputs from y on
  bool first, last;    // of the parts
  const float *scale, *bias;
  const char* ahead;  // what is needed later: asked for bit by bit, `step` bytes for every k
  int64_t step;
};

[[gnu::noinline]] static vf load_some(const float* p, int64_t n) {
  vf v{};
  for (int i = 0; i < W && i < n; i++) v[i] = p[i];
  return v;
}
[[gnu::noinline]] static void store_some(float* p, vf v, int64_t n) {
  for (int i = 0; i < W && i < n; i++) p[i] = v[i];
}

template <int rows, int np, class T>
inline void linear_tile(const Linear& l, const Part<T>& t) {
  constexpr int nv = np * kVectors;
  vf sum[rows][nv];
  const bool whole = t.left >= np * kPanel;
  if (t.first) {
    SEAD_UNROLL
    for (int r = 0; r < rows; r++) SEAD_UNROLL
      for (int v = 0; v < nv; v++) sum[r][v] = vf{};
  } else {
    SEAD_UNROLL
    for (int r = 0; r < rows; r++) SEAD_UNROLL
      for (int v = 0; v < nv; v++) sum[r][v] = whole ? load(t.y + r * l.n + v * W) : load_some(t.y + r * l.n + v * W, t.left - v * W);
  }
  const float* x = t.x;
  const T* w = t.w;
  const char* ahead = t.ahead;
  const int64_t next = l.k, apart = t.apart, step = t.step;
  _Pragma("GCC unroll 4")
  for (int64_t i = t.count; i > 0; i--, x++, w += kPanel, ahead += step) {
    SEAD_UNROLL
    for (int p = 0; p < np; p++) __builtin_prefetch(ahead + p * apart * static_cast<int64_t>(sizeof(T)));
    const auto weights = [&](int v) { return widen(w + v / kVectors * apart + v % kVectors * W); };
    if constexpr (rows < nv) {  // the fewer ones stay in registers
      vf b[rows];
      SEAD_UNROLL
      for (int r = 0; r < rows; r++) b[r] = splat(x[r * next]);
      SEAD_UNROLL
      for (int v = 0; v < nv; v++) {
        const vf a = held(weights(v));
        SEAD_UNROLL
        for (int r = 0; r < rows; r++) sum[r][v] += a * b[r];
      }
    } else {
      vf a[nv];
      SEAD_UNROLL
      for (int v = 0; v < nv; v++) a[v] = weights(v);
      SEAD_UNROLL
      for (int r = 0; r < rows; r++) {
        const vf b = splat(x[r * next]);
        SEAD_UNROLL
        for (int v = 0; v < nv; v++) sum[r][v] += a[v] * b;
      }
    }
  }
  const bool scaled = t.last && t.scale, biased = t.last && t.bias;
  SEAD_UNROLL
  for (int v = 0; v < nv; v++) {
    const int64_t at = v * W, left = t.left - at;
    const vf s = !scaled ? vf{} : whole ? load(t.scale + at) : load_some(t.scale + at, left);
    const vf b = !biased ? vf{} : whole ? load(t.bias + at) : load_some(t.bias + at, left);
    SEAD_UNROLL
    for (int r = 0; r < rows; r++) {
      vf z = sum[r][v];
      if (scaled) z = rounded(z * s);
      if (biased) z += b;
      if (whole) store(t.y + r * l.n + at, z);
      else store_some(t.y + r * l.n + at, z, left);
    }
  }
}

template <int np, class T, int rows = kXRows>
inline void linear_rows(const Linear& l, const Part<T>& t, int64_t n) {
  if constexpr (np <= panels_of(rows))
    if (n == rows) return linear_tile<rows, np>(l, t);
  if constexpr (rows > 1) linear_rows<np, T, rows - 1>(l, t, n);
}

// Some rows, in tiles of about one size (rather than full ones and a single row at the end), against a part of np panels.
template <int np, class T>
inline void linear_tiles(const Linear& l, Part<T> t, int64_t row, int64_t rows, int64_t k, int64_t j) {
  const int64_t tiles = (rows + kXRows - 1) / kXRows;
  t.first = k == 0, t.last = k + t.count == l.k, t.left = l.n - j;
  t.scale = l.scale ? l.scale + j : nullptr, t.bias = l.bias ? l.bias + j : nullptr;
  t.step = (t.step + tiles - 1) / tiles;
  for (int64_t i = tiles; i > 0; i--) {
    const int64_t n = (rows + i - 1) / i;
    t.x = l.x + row * l.k + k, t.y = l.y + row * l.n + j;
    linear_rows<np>(l, t, n);
    t.ahead += t.step * t.count;
    row += n, rows -= n;
  }
}

// Panels for few rows: all of k at once, and what follows in the stream is asked for ahead.
template <int np, class T>
inline void linear_few(const Linear& l, int64_t from, int64_t to) {
  constexpr int64_t kAhead = 4096;  // bytes
  const int64_t apart = l.k * kPanel;
  for (int64_t p = from; p < to; p += np) {
    const T* w = static_cast<const T*>(l.w) + p * apart;
    const Part<T> t{.w = w, .apart = apart, .count = l.k, .ahead = reinterpret_cast<const char*>(w) + kAhead, .step = kPanel * sizeof(T)};
    if (np == 1 || p + np <= to) linear_tiles<np>(l, t, 0, l.rows, 0, p * kPanel);
    else linear_tiles<1>(l, t, 0, l.rows, 0, p * kPanel);
  }
}

// The part [k, k + count) of a panel of plain rows.
inline void pack(const Linear& l, int64_t panel, int64_t k, int64_t count, float* to) {
  const int64_t outputs = std::min(kPanel, l.n - panel * kPanel);
  const float* w = static_cast<const float*>(l.w) + panel * kPanel * l.k + k;
  typedef float v4 __attribute__((vector_size(16)));
  for (int64_t j = 0; j < kPanel; j += 4) {
    int64_t i = 0;
    if (j + 4 <= outputs)
      for (; i + 4 <= count; i += 4) {
        v4 a[4], b[4];
        for (int r = 0; r < 4; r++) std::memcpy(&a[r], w + (j + r) * l.k + i, sizeof(v4));
        b[0] = __builtin_shufflevector(a[0], a[1], 0, 4, 1, 5), b[1] = __builtin_shufflevector(a[0], a[1], 2, 6, 3, 7);
        b[2] = __builtin_shufflevector(a[2], a[3], 0, 4, 1, 5), b[3] = __builtin_shufflevector(a[2], a[3], 2, 6, 3, 7);
        a[0] = __builtin_shufflevector(b[0], b[2], 0, 1, 4, 5), a[1] = __builtin_shufflevector(b[0], b[2], 2, 3, 6, 7);
        a[2] = __builtin_shufflevector(b[1], b[3], 0, 1, 4, 5), a[3] = __builtin_shufflevector(b[1], b[3], 2, 3, 6, 7);
        for (int r = 0; r < 4; r++) std::memcpy(to + (i + r) * kPanel + j, &a[r], sizeof(v4));
      }
    for (; i < count; i++)
      for (int r = 0; r < 4; r++) to[i * kPanel + j + r] = j + r < outputs ? w[(j + r) * l.k + i] : 0;
  }
}

// Panels for many rows: a part of k after the other, all panels of the unit, while the rows' part stays in the L2 cache.
template <int np, class T>
inline void linear_many(const Linear& l, int64_t from, int64_t to) {
  const int64_t apart = l.k * kPanel;
  const auto part = [&](int64_t p, int64_t k) { return static_cast<const T*>(l.w) + p * apart + k * kPanel; };
  for (int64_t row = 0; row < l.rows; row += kXBlock)
    for (int64_t k = 0, part_k = depth(l.k); k < l.k; k += part_k) {
      const int64_t rows = std::min<int64_t>(kXBlock, l.rows - row), count = std::min(part_k, l.k - k);
      for (int64_t p = from; p < to; p += np) {
        // The same part of the next panels, or the next part of the first ones.
        const T* next = p + np < to ? part(p + np, k) : k + count < l.k ? part(from, k + count) : part(to, 0);
        const Part<T> t{.w = part(p, k), .apart = apart, .count = count, .ahead = reinterpret_cast<const char*>(next), .step = kPanel * sizeof(T)};
        if (np == 1 || p + np <= to) linear_tiles<np>(l, t, row, rows, k, p * kPanel);
        else linear_tiles<1>(l, t, row, rows, k, p * kPanel);
      }
    }
}

inline void linear_plain(const Linear& l, int64_t from, int64_t to) {
  alignas(64) float buffer[kDepth * kPanel];
  for (int64_t p = from; p < to; p++)
    for (int64_t k = 0, part_k = depth(l.k); k < l.k; k += part_k) {
      const int64_t count = std::min(part_k, l.k - k);
      pack(l, p, k, count, buffer);
      const Part<float> t{.w = buffer, .apart = 0, .count = count, .ahead = reinterpret_cast<const char*>(buffer), .step = 0};
      linear_tiles<1>(l, t, 0, l.rows, k, p * kPanel);
    }
}

template <class T>
inline void linear_of(const Linear& l, int64_t from, int64_t to) {
  if (l.rows <= kXRows && panels_of(l.rows) == 2) linear_few<2, T>(l, from, to);
  else if (l.rows <= kXRows) linear_few<1, T>(l, from, to);
  else linear_many<panels_of(kXRows), T>(l, from, to);
}

void linear(const Linear& l, int64_t from, int64_t to) {
  switch (l.type) {
    case Linear::f32: return linear_of<float>(l, from, to);
    case Linear::bf16: return linear_of<uint16_t>(l, from, to);
    case Linear::i8: return linear_of<int8_t>(l, from, to);
    case Linear::plain: return linear_plain(l, from, to);
  }
}

}  // namespace sead::SEAD_ISA
