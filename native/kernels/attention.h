// Attention of rows over the paged cache, with a running softmax (Milakov & Gimelshein 2018; FlashAttention's inner loop).
// Keys lie transposed within a block, [d, B], so that a vector holds scores of neighbouring tokens and no lane is ever
// summed across; values lie as [B, d]. A block that several rows see is read once for all of them, and every row's
// arithmetic has an order of its own, whoever stands beside it.
#pragma once
#include <algorithm>
#include <cmath>

#include "kernels.h"
#include "simd.h"

namespace sead::SEAD_ISA {

constexpr int kVecs = kBlock / W;
constexpr int kPart = std::min(kVecs, 4);      // vectors handled at a time
constexpr int kTogether = W == 16 ? 6 : 3;     // queries that share their loads: as many as leave registers for the sums

struct Query {
  const float* q;  // [d]
  float* out;      // [d] running sum of p·v
  float top, total;
};

// What will be read next, asked for line by line between the multiply-adds: all at once would wait for each other. step: 0
// when there is nothing.
struct Ahead {
  const char* at;
  int64_t step;
  void two() {
    __builtin_prefetch(at);
    __builtin_prefetch(at + step);
    at += 2 * step;
  }
};

// s[i][t] = scale · q_i·k_t
template <int n>
inline void scores(const Query* x, const float* keys, int64_t d, float scale, float (*s)[kBlock], Ahead ahead) {
  const float* q[n];
  SEAD_UNROLL
  for (int u = 0; u < n; u++) q[u] = x[u].q;
  for (int part = 0; part < kVecs; part += kPart) {
    vf sum[n][kPart];
    SEAD_UNROLL
    for (int u = 0; u < n; u++) SEAD_UNROLL
      for (int j = 0; j < kPart; j++) sum[u][j] = vf{};
    const float* k = keys + part * W;
    _Pragma("GCC unroll 2")
    for (int64_t i = 0; i < d; i++, k += kBlock) {
      vf b[n];
      SEAD_UNROLL
      for (int u = 0; u < n; u++) b[u] = splat(q[u][i]);
      ahead.two();
      SEAD_UNROLL
      for (int j = 0; j < kPart; j++) {
        const vf a = held(load(k + j * W));
        SEAD_UNROLL
        for (int u = 0; u < n; u++) sum[u][j] += b[u] * a;
      }
    }
    SEAD_UNROLL
    for (int u = 0; u < n; u++) SEAD_UNROLL
      for (int j = 0; j < kPart; j++) store(s[u] + (part + j) * W, rounded(sum[u][j] * scale));
  }
}

// out_i[0, span·W) = keep_i·out_i + Σ_t p_i[t]·v_t
template <int n, int span>
__attribute__((noinline)) void add_span(Query* x, const float (*p)[kBlock], const float* keep, const float* values, int64_t tokens, int64_t d, int64_t at, Ahead& ahead) {
  vf sum[n][span];
  SEAD_UNROLL
  for (int u = 0; u < n; u++) SEAD_UNROLL
    for (int j = 0; j < span; j++) sum[u][j] = rounded(load(x[u].out + at + j * W) * keep[u]);
  const float* v = values + at;
  for (int64_t t = 0; t < tokens; t++, v += d) {
    vf b[n];
    SEAD_UNROLL
    for (int u = 0; u < n; u++) b[u] = splat(p[u][t]);
    ahead.two();
    SEAD_UNROLL
    for (int j = 0; j < span; j++) {
      const vf a = held(load(v + j * W));
      SEAD_UNROLL
      for (int u = 0; u < n; u++) sum[u][j] += b[u] * a;
    }
  }
  SEAD_UNROLL
  for (int u = 0; u < n; u++) SEAD_UNROLL
    for (int j = 0; j < span; j++) store(x[u].out + at + j * W, sum[u][j]);
}

template <int n>
inline void add_values(Query* x, const float (*p)[kBlock], const float* keep, const float* values, int64_t tokens, int64_t d, Ahead ahead) {
  int64_t i = 0;
  for (; i + 4 * W <= d; i += 4 * W) add_span<n, 4>(x, p, keep, values, tokens, d, i, ahead);
  for (; i + W <= d; i += W) add_span<n, 1>(x, p, keep, values, tokens, d, i, ahead);
  for (; i < d; i++)
    for (int u = 0; u < n; u++) {
      float a = rounded(x[u].out[i] * keep[u]);
      for (int64_t t = 0; t < tokens; t++) a += p[u][t] * values[t * d + i];
      x[u].out[i] = a;
    }
}

// see takes the first tokens of a block into the running softmax of n queries. next: the keys that come after this block's
// values; null: all of this is in the cache already.
template <int n>
inline void see(Query* x, const float* keys, const float* values, int64_t tokens, int64_t d, float scale, const float* next) {
  float s[n][kBlock], keep[n];
  const auto ahead = [&](const float* at) { return next ? Ahead{reinterpret_cast<const char*>(at), 64} : Ahead{reinterpret_cast<const char*>(keys), 0}; };
  scores<n>(x, keys, d, scale, s, ahead(values));
  for (int u = 0; u < n; u++) {
    for (int64_t t = tokens; t < kBlock; t++) s[u][t] = -INFINITY;  // what stands there may be stale
    vf high = load(s[u]);
    for (int j = 1; j < kVecs; j++) {
      const vf y = load(s[u] + j * W);
      high = y > high ? y : high;
    }
    const float top = std::fmax(x[u].top, max(high));
    vf total{};
    for (int j = 0; j < kVecs; j++) {
      const vf e = exp(load(s[u] + j * W) - top);
      total += e;
      store(s[u] + j * W, e);
    }
    keep[u] = x[u].top == -INFINITY ? 0.0f : exp(x[u].top - top);
    x[u].total = rounded(x[u].total * keep[u]) + sum(total);
    x[u].top = top;
  }
  add_values<n>(x, s, keep, values, tokens, d, ahead(next));
}

template <int n = kTogether>
inline void see_all(Query* x, int64_t count, const float* keys, const float* values, int64_t tokens, int64_t d, float scale, const float* next) {
  for (; count >= n; count -= n, x += n, next = nullptr) see<n>(x, keys, values, tokens, d, scale, next);
  if constexpr (n > 1) see_all<n - 1>(x, count, keys, values, tokens, d, scale, next);
}

void cache_attention(const CacheRow* rows, int64_t n, int64_t shared, const float* keys, const float* values, int64_t kv_heads,
                     int64_t from, int64_t to, int64_t g, int64_t d, float scale) {
  Query x[kTileQueries];  // by head, row, query
  const int64_t heads = to - from, each = n * g;
  for (int64_t h = 0; h < heads; h++)
    for (int64_t i = 0; i < each; i++) {
      const int64_t at = ((from + h) * g + i % g) * d;
      x[h * each + i] = {rows[i / g].q + at, rows[i / g].out + at, -INFINITY, 0};
      std::fill_n(x[h * each + i].out, d, 0.0f);
    }
  // All heads of a block, which lie side by side, then the next block's.
  const auto block = [&](const int32_t* table, int64_t b) { return (static_cast<int64_t>(table[b]) * kv_heads + from) * d * kBlock; };
  const auto all = [&](int64_t first, int64_t count, int64_t at, int64_t tokens, int64_t then) {
    for (int64_t h = 0; h < heads; h++, at += d * kBlock)
      see_all(x + h * each + first, count, keys + at, values + at, tokens, d, scale, keys + (h + 1 < heads ? at + d * kBlock : then));
  };
  for (int64_t b = 0; b < shared; b++) all(0, each, block(rows[0].table, b), kBlock, block(rows[0].table, b + 1 < shared ? b + 1 : b));
  for (int64_t r = 0; r < n; r++) {
    const int64_t blocks = (rows[r].length + kBlock - 1) / kBlock;
    for (int64_t b = shared; b < blocks; b++) {
      // At the end of a row comes the next one's first own block.
      const auto& then = b + 1 < blocks || r + 1 == n ? rows[r] : rows[r + 1];
      const int64_t next = b + 1 < blocks ? b + 1 : r + 1 == n ? b : shared < (then.length + kBlock - 1) / kBlock ? shared : 0;
      all(r * g, g, block(rows[r].table, b), std::min<int64_t>(kBlock, rows[r].length - b * kBlock), block(then.table, next));
    }
  }
  for (int64_t i = 0; i < heads * each; i++)
    for (int64_t k = 0; k < d; k++) x[i].out[k] /= x[i].total;
}

}  // namespace sead::SEAD_ISA
