// Attention of one row over the paged cache, with a running softmax (Milakov & Gimelshein 2018; FlashAttention's inner
// loop). Keys lie transposed within a block, [d, B], so that a vector holds scores of neighbouring tokens and no lane is
// ever summed across; values lie as [B, d].
#pragma once
#include "kernels.h"
#include "simd.h"

namespace sead::SEAD_ISA {

constexpr int kVecs = kBlock / W;

// Sums run in two halves (even and odd terms), so that twice as many multiply-adds are in flight.
inline void scores(const float* q, const float* keys, int64_t d, float scale, float* s) {
  vf even[kVecs] = {}, odd[kVecs] = {};
  int64_t i = 0;
  for (; i + 2 <= d; i += 2) {
    const vf a = splat(q[i]), b = splat(q[i + 1]);
    for (int j = 0; j < kVecs; j++) {
      even[j] += a * load(keys + i * kBlock + j * W);
      odd[j] += b * load(keys + (i + 1) * kBlock + j * W);
    }
  }
  if (i < d)
    for (int j = 0; j < kVecs; j++) even[j] += splat(q[i]) * load(keys + i * kBlock + j * W);
  for (int j = 0; j < kVecs; j++) store(s + j * W, (even[j] + odd[j]) * scale);
}

// out[0, n·W) = keep·out + Σ_t p[t]·values[t]
template <int n>
inline void add_span(const float* p, const float* values, int64_t tokens, int64_t d, float keep, float* out) {
  vf even[n], odd[n];
  for (int j = 0; j < n; j++) even[j] = load(out + j * W) * keep, odd[j] = vf{};
  int64_t t = 0;
  for (; t + 2 <= tokens; t += 2) {
    const vf a = splat(p[t]), b = splat(p[t + 1]);
    for (int j = 0; j < n; j++) {
      even[j] += a * load(values + t * d + j * W);
      odd[j] += b * load(values + (t + 1) * d + j * W);
    }
  }
  if (t < tokens)
    for (int j = 0; j < n; j++) even[j] += splat(p[t]) * load(values + t * d + j * W);
  for (int j = 0; j < n; j++) store(out + j * W, even[j] + odd[j]);
}

inline void add_values(const float* p, const float* values, int64_t tokens, int64_t d, float keep, float* out) {
  int64_t i = 0;
  for (; i + 4 * W <= d; i += 4 * W) add_span<4>(p, values + i, tokens, d, keep, out + i);
  for (; i + W <= d; i += W) add_span<1>(p, values + i, tokens, d, keep, out + i);
  for (; i < d; i++) {
    float a = out[i] * keep;
    for (int64_t t = 0; t < tokens; t++) a += p[t] * values[t * d + i];
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
