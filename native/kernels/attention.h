// Attention of rows over the paged cache, with a running softmax (Milakov & Gimelshein 2018; FlashAttention's inner loop).
// Keys lie transposed within a block, [d, B], so that a vector holds scores of neighbouring tokens and no lane is ever
// summed across; values lie as [B, d]. A block that several rows see is read once for all of them, and every row's
// arithmetic has an order of its own, whoever stands beside it.
#pragma once
#include <algorithm>

#include "ahead.h"
#include "kernels.h"
#include "simd.h"

namespace sead::SEAD_ISA {

constexpr int kVecs = kBlock / W;
constexpr int kPart = kVecs < 2 ? kVecs : 2;  // vectors of a block handled at a time
constexpr int kTogether = W == 16 ? 5 : 3;     // queries that share their loads: as many as leave registers for the sums

struct Query {
  const float* q;  // [d]
  float* out;      // [d] running sum of p·v
  float top, total;
};

// s[i][t] = scale · q_i·k_t. Sums run in two halves (even and odd terms), so that twice as many multiply-adds are in flight.
template <int n>
inline void scores(const Query* x, const float* keys, int64_t d, float scale, float (*s)[kBlock], Ahead& ahead) {
  for (int part = 0; part < kVecs; part += kPart) {
    vf even[n][kPart] = {}, odd[n][kPart] = {};
    const float* k = keys + part * W;
    int64_t i = 0;
    for (; i + 2 <= d; i += 2) {
      ahead.take(2);
      for (int j = 0; j < kPart; j++) {
        const vf a = load(k + i * kBlock + j * W), b = load(k + (i + 1) * kBlock + j * W);
        for (int u = 0; u < n; u++) {
          even[u][j] += splat(x[u].q[i]) * a;
          odd[u][j] += splat(x[u].q[i + 1]) * b;
        }
      }
    }
    if (i < d)
      for (int j = 0; j < kPart; j++)
        for (int u = 0; u < n; u++) even[u][j] += splat(x[u].q[i]) * load(k + i * kBlock + j * W);
    for (int u = 0; u < n; u++)
      for (int j = 0; j < kPart; j++) store(s[u] + (part + j) * W, rounded((even[u][j] + odd[u][j]) * scale));
  }
}

// out_i[0, span·W) = keep_i·out_i + Σ_t p_i[t]·v_t
template <int n, int span>
inline void add_span(Query* x, const float (*p)[kBlock], const float* keep, const float* values, int64_t tokens, int64_t d, int64_t at, Ahead& ahead) {
  vf even[n][span], odd[n][span] = {};
  for (int u = 0; u < n; u++)
    for (int j = 0; j < span; j++) even[u][j] = rounded(load(x[u].out + at + j * W) * keep[u]);
  const float* v = values + at;
  int64_t t = 0;
  for (; t + 2 <= tokens; t += 2) {
    ahead.take(2);
    for (int j = 0; j < span; j++) {
      const vf a = load(v + t * d + j * W), b = load(v + (t + 1) * d + j * W);
      for (int u = 0; u < n; u++) {
        even[u][j] += splat(p[u][t]) * a;
        odd[u][j] += splat(p[u][t + 1]) * b;
      }
    }
  }
  if (t < tokens)
    for (int j = 0; j < span; j++)
      for (int u = 0; u < n; u++) even[u][j] += splat(p[u][t]) * load(v + t * d + j * W);
  for (int u = 0; u < n; u++)
    for (int j = 0; j < span; j++) store(x[u].out + at + j * W, even[u][j] + odd[u][j]);
}

template <int n>
inline void add_values(Query* x, const float (*p)[kBlock], const float* keep, const float* values, int64_t tokens, int64_t d, Ahead& ahead) {
  int64_t i = 0;
  for (; i + kPart * W <= d; i += kPart * W) add_span<n, kPart>(x, p, keep, values, tokens, d, i, ahead);
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
  const int64_t lines = d * kBlock / 16;
  Ahead ahead{values, next ? lines : 0};
  scores<n>(x, keys, d, scale, s, ahead);
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
  ahead = {next, next ? lines : 0};
  add_values<n>(x, s, keep, values, tokens, d, ahead);
}

template <int n = kTogether>
inline void see_all(Query* x, int64_t count, const float* keys, const float* values, int64_t tokens, int64_t d, float scale, const float* next) {
  for (; count >= n; count -= n, x += n, next = nullptr) see<n>(x, keys, values, tokens, d, scale, next);
  if constexpr (n > 1) see_all<n - 1>(x, count, keys, values, tokens, d, scale, next);
}

void cache_attention(const CacheRow* rows, int64_t n, int64_t shared, const float* keys, const float* values, int64_t kv_heads,
                     int64_t head, int64_t g, int64_t d, float scale) {
  Query x[kTileQueries];
  for (int64_t i = 0; i < n * g; i++) {
    x[i] = {rows[i / g].q + i % g * d, rows[i / g].out + i % g * d, -INFINITY, 0};
    std::fill_n(x[i].out, d, 0.0f);
  }
  const auto block = [&](const int32_t* table, int64_t b) { return (static_cast<int64_t>(table[b]) * kv_heads + head) * d * kBlock; };
  for (int64_t b = 0; b < shared; b++) {
    const int64_t at = block(rows[0].table, b);
    see_all(x, n * g, keys + at, values + at, kBlock, d, scale, keys + block(rows[0].table, b + 1 < shared ? b + 1 : b));
  }
  for (int64_t r = 0; r < n; r++) {
    const int64_t blocks = (rows[r].length + kBlock - 1) / kBlock;
    for (int64_t b = shared; b < blocks; b++) {
      const int64_t at = block(rows[r].table, b);
      // At the end of a row comes the next one's first own block.
      const auto& then = b + 1 < blocks || r + 1 == n ? rows[r] : rows[r + 1];
      const int64_t next = b + 1 < blocks ? b + 1 : r + 1 == n ? b : shared < (then.length + kBlock - 1) / kBlock ? shared : 0;
      see_all(x + r * g, g, keys + at, values + at, std::min<int64_t>(kBlock, rows[r].length - b * kBlock), d, scale,
              keys + block(then.table, next));
    }
  }
  for (int64_t i = 0; i < n * g; i++)
    for (int64_t k = 0; k < d; k++) x[i].out[k] /= x[i].total;
}

}  // namespace sead::SEAD_ISA
