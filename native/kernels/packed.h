// Causal attention of one head over one whole sequence, forward and backward: the training path. The same tiles as
// FlashAttention's (Dao et al. 2022), for a cache instead of an SRAM: kRows queries at a time see all their keys, the
// soft-max needs no second pass, and nothing of size [L, L] exists.
//
// Everything is one small matrix product, tile: up to kRows rows of a times 2·W columns of b, in registers.
#pragma once
#include <algorithm>

#include "kernels.h"
#include "simd.h"

namespace sead::SEAD_ISA {

constexpr int kRows = 6;          // 6 rows × 2 vectors of sums, 2 of b and 1 of a: 15 of AVX2's 16 registers
constexpr int64_t kQueries = 48;  // queries of one step of the backward
constexpr int64_t kKeys = 384;    // keys of one step of the backward: its two tiles are 2·48·384·4 = 147 KB

// c[r][0, n·W) += Σ_k a[r·ar + k·ak] · b[k·bk, +n·W); c is overwritten if fresh
template <int R, int n>
inline void tile(const float* a, int64_t ar, int64_t ak, const float* b, int64_t bk, int64_t depth, float* c, int64_t cr, bool fresh) {
  vf s[R][n];
  for (int r = 0; r < R; r++)
    for (int j = 0; j < n; j++) s[r][j] = fresh ? vf{} : load(c + r * cr + j * W);
  for (int64_t k = 0; k < depth; k++) {
    vf x[n];
    for (int j = 0; j < n; j++) x[j] = load(b + k * bk + j * W);
    for (int r = 0; r < R; r++) {
      const vf y = splat(a[r * ar + k * ak]);
      for (int j = 0; j < n; j++) s[r][j] += y * x[j];
    }
  }
  for (int r = 0; r < R; r++)
    for (int j = 0; j < n; j++) store(c + r * cr + j * W, s[r][j]);
}

template <int R>
inline void stripe(const float* a, int64_t ar, int64_t ak, const float* b, int64_t bk, int64_t depth, int64_t columns, float* c,
                   int64_t cr, bool fresh) {
  int64_t j = 0;
  for (; j + 2 * W <= columns; j += 2 * W) tile<R, 2>(a, ar, ak, b + j, bk, depth, c + j, cr, fresh);
  if (j < columns) tile<R, 1>(a, ar, ak, b + j, bk, depth, c + j, cr, fresh);
}

// c [rows, columns] (+)= a·b, columns a multiple of W
inline void product(const float* a, int64_t ar, int64_t ak, const float* b, int64_t bk, int64_t rows, int64_t depth, int64_t columns,
                    float* c, int64_t cr, bool fresh) {
  int64_t r = 0;
  for (; r + kRows <= rows; r += kRows) stripe<kRows>(a + r * ar, ar, ak, b, bk, depth, columns, c + r * cr, cr, fresh);
  a += r * ar, c += r * cr;
  switch (rows - r) {
    case 1: stripe<1>(a, ar, ak, b, bk, depth, columns, c, cr, fresh); break;
    case 2: stripe<2>(a, ar, ak, b, bk, depth, columns, c, cr, fresh); break;
    case 3: stripe<3>(a, ar, ak, b, bk, depth, columns, c, cr, fresh); break;
    case 4: stripe<4>(a, ar, ak, b, bk, depth, columns, c, cr, fresh); break;
    case 5: stripe<5>(a, ar, ak, b, bk, depth, columns, c, cr, fresh); break;
  }
}

inline int64_t padded(int64_t n) { return (n + 2 * W - 1) / (2 * W) * (2 * W); }

// x [n, d] with a row stride becomes t [d, padded(n)]; what is beyond n is 0
inline void turn(const float* x, int64_t stride, int64_t n, int64_t d, float* t) {
  const int64_t p = padded(n);
  for (int64_t i = 0; i < d; i++) {
    for (int64_t j = 0; j < n; j++) t[i * p + j] = x[j * stride + i];
    for (int64_t j = n; j < p; j++) t[i * p + j] = 0;
  }
}

void packed_forward(const PackedHead& h, float* work) {
  const int64_t L = h.length, d = h.d, p = padded(L);
  float *keys = work, *s = work + d * p;  // [d, p] and [kRows, p]
  turn(h.k, h.k_stride, L, d, keys);
  for (int64_t q = 0; q < L; q += kRows) {
    const int64_t rows = std::min<int64_t>(kRows, L - q), width = padded(q + rows);
    product(h.q + q * h.q_stride, h.q_stride, 1, keys, p, rows, d, width, s, p, true);
    for (int64_t r = 0; r < rows; r++) {
      float* x = s + r * p;
      const int64_t seen = q + r + 1;
      for (int64_t j = seen; j < width; j++) x[j] = -INFINITY;
      vf top = load(x);
      for (int64_t j = W; j < width; j += W) {
        const vf y = load(x + j);
        top = y > top ? y : top;
      }
      const float m = max(top) * h.scale;  // the scale is above 0
      vf total{};
      for (int64_t j = 0; j < width; j += W) {
        const vf e = exp(load(x + j) * h.scale - m);
        store(x + j, e);
        total += e;
      }
      const float l = sum(total);
      h.lse[q + r] = m + std::log(l);
      for (int64_t j = 0; j < width; j += W) store(x + j, load(x + j) / splat(l));
    }
    product(s, p, 1, h.v, h.v_stride, rows, q + rows, d, h.out + q * h.out_stride, h.out_stride, true);
  }
}

// With P = softmax(s), D = Σ dout·out: dV = Pᵀ·dout, dS = P∘(dout·Vᵀ − D)·scale, dQ = dS·K, dK = dSᵀ·Q.
void packed_backward(const PackedHead& h, const PackedGrad& g, float* work) {
  const int64_t L = h.length, d = h.d, p = padded(L);
  float *keys = work, *values = keys + d * p, *prob = values + d * p, *ds = prob + kQueries * kKeys;
  turn(h.k, h.k_stride, L, d, keys);
  turn(h.v, h.v_stride, L, d, values);
  float delta[kQueries];
  for (int64_t q = 0; q < L; q += kQueries) {
    const int64_t rows = std::min(kQueries, L - q);
    const float *dout = g.dout + q * g.dout_stride, *query = h.q + q * h.q_stride;
    for (int64_t r = 0; r < rows; r++) {
      const float *a = dout + r * g.dout_stride, *b = h.out + (q + r) * h.out_stride;
      vf x{};
      for (int64_t i = 0; i < d; i += W) x += load(a + i) * load(b + i);
      delta[r] = sum(x);
    }
    for (int64_t k = 0; k < q + rows; k += kKeys) {
      const int64_t n = std::min(kKeys, q + rows - k), width = std::min(padded(n), kKeys);
      product(query, h.q_stride, 1, keys + k, p, rows, d, width, prob, kKeys, true);
      product(dout, g.dout_stride, 1, values + k, p, rows, d, width, ds, kKeys, true);
      for (int64_t r = 0; r < rows; r++) {
        float *x = prob + r * kKeys, *y = ds + r * kKeys;
        const float lse = h.lse[q + r];
        for (int64_t j = 0; j < width; j += W) {
          const vf e = exp(load(x + j) * h.scale - lse);
          store(x + j, e);
          store(y + j, e * (load(y + j) - delta[r]) * h.scale);
        }
        for (int64_t j = std::max<int64_t>(0, q + r + 1 - k); j < width; j++) x[j] = y[j] = 0;
      }
      product(ds, kKeys, 1, h.k + k * h.k_stride, h.k_stride, rows, n, d, g.dq + q * g.dq_stride, g.dq_stride, k == 0);
      product(ds, 1, kKeys, query, h.q_stride, n, rows, d, g.dk + k * g.dk_stride, g.dk_stride, false);
      product(prob, 1, kKeys, dout, g.dout_stride, n, rows, d, g.dv + k * g.dk_stride, g.dk_stride, false);
    }
  }
}

int64_t packed_work(int64_t length, int64_t d) { return 2 * d * padded(length) + std::max(kRows * padded(length), 2 * kQueries * kKeys); }

}  // namespace sead::SEAD_ISA
