// Attention of one row over the paged cache, with a running softmax (Milakov & Gimelshein 2018; FlashAttention's inner
// loop). Keys lie transposed within a block, [d, B], so that a vector holds scores of neighbouring tokens and no lane is
// ever summed across; values lie as [B, d].
#pragma once
#include "kernels.h"
#include "simd.h"

namespace sead::SEAD_ISA {

constexpr int kVecs = kBlock / W;

inline void scores(const float* q, const float* keys, int64_t d, float scale, float* s) {
  vf acc[kVecs] = {};
  for (int64_t i = 0; i < d; i++) {
    const vf qi = splat(q[i]);
    for (int j = 0; j < kVecs; j++) acc[j] += qi * load(keys + i * kBlock + j * W);
  }
  for (int j = 0; j < kVecs; j++) store(s + j * W, acc[j] * scale);
}

inline void add_values(const float* p, const float* values, int64_t n, int64_t d, float keep, float* out) {
  int64_t i = 0;
  for (; i + 2 * W <= d; i += 2 * W) {
    vf a = load(out + i) * keep, b = load(out + i + W) * keep;
    for (int64_t t = 0; t < n; t++) {
      const vf pt = splat(p[t]);
      a += pt * load(values + t * d + i);
      b += pt * load(values + t * d + i + W);
    }
    store(out + i, a);
    store(out + i + W, b);
  }
  for (; i + W <= d; i += W) {
    vf a = load(out + i) * keep;
    for (int64_t t = 0; t < n; t++) a += splat(p[t]) * load(values + t * d + i);
    store(out + i, a);
  }
  for (; i < d; i++) {
    float a = out[i] * keep;
    for (int64_t t = 0; t < n; t++) a += p[t] * values[t * d + i];
    out[i] = a;
  }
}

void cache_attention(const float* q, const float* keys, const float* values, const int32_t* table, int64_t kv_heads,
                     int64_t head, int64_t g, int64_t d, int64_t length, float scale, float* out) {
  float m[kMaxGroup], l[kMaxGroup], s[kBlock];
  for (int64_t i = 0; i < g * d; i++) out[i] = 0;
  for (int64_t i = 0; i < g; i++) m[i] = -INFINITY, l[i] = 0;
  for (int64_t start = 0; start < length; start += kBlock) {
    const int64_t n = length - start < kBlock ? length - start : kBlock;
    const int64_t base = (static_cast<int64_t>(table[start / kBlock]) * kv_heads + head) * d * kBlock;
    for (int64_t i = 0; i < g; i++) {
      scores(q + i * d, keys + base, d, scale, s);
      for (int64_t t = n; t < kBlock; t++) s[t] = -INFINITY;  // what stands there may be stale
      vf top = load(s);
      for (int j = 1; j < kVecs; j++) {
        const vf x = load(s + j * W);
        top = x > top ? x : top;
      }
      const float mx = std::fmax(m[i], max(top));
      vf total{};
      for (int j = 0; j < kVecs; j++) {
        const vf p = exp(load(s + j * W) - mx);
        total += p;
        store(s + j * W, p);
      }
      const float keep = m[i] == -INFINITY ? 0.0f : exp(m[i] - mx);
      l[i] = l[i] * keep + sum(total);
      m[i] = mx;
      add_values(s, values + base, n, d, keep, out + i * d);
    }
  }
  for (int64_t i = 0; i < g; i++)
    for (int64_t k = 0; k < d; k++) out[i * d + k] /= l[i];
}

}  // namespace sead::SEAD_ISA
