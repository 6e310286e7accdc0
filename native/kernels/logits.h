// The policy's soft-max over one row of logits: statistics (engine and trainer) and gradient (trainer). z = logit / T;
// ids outside the allowed set take no part. Sums run in float over short spans and in double across them.
#pragma once
#include "simd.h"

namespace sead::SEAD_ISA {

constexpr float kOut = -1e30f;  // z of an id that is not allowed: its exp is exactly 0, and 0·z stays 0
constexpr int64_t kSpan = 512;

// z of ids [from, from + n) of a row into a buffer
inline void fill(const float* logits, int64_t from, int64_t n, int64_t offset, float t, const uint64_t* bits, float* z) {
  int64_t i = 0;
  for (; i + W <= n; i += W) store(z + i, load(logits + from + i) / splat(t));
  for (; i < n; i++) z[i] = logits[from + i] / t;
  if (!bits) return;
  for (i = 0; i < n; i++) {
    const int64_t id = offset + from + i;
    if (!(bits[id >> 6] >> (id & 63) & 1)) z[i] = kOut;
  }
}

void logit_stats(const float* logits, int64_t v, int64_t offset, float t, const uint64_t* bits, int32_t target,
                 double* stats) {
  float z[kSpan];
  float top = kOut;
  for (int64_t from = 0; from < v; from += kSpan) {
    const int64_t n = v - from < kSpan ? v - from : kSpan;
    fill(logits, from, n, offset, t, bits, z);
    vf best = splat(kOut);
    int64_t i = 0;
    for (; i + W <= n; i += W) {
      const vf x = load(z + i);
      best = x > best ? x : best;
      best = x != x ? x : best;  // a NaN must not hide
    }
    float m = max(best);
    for (int k = 0; k < W; k++)
      if (best[k] != best[k]) m = best[k];
    for (; i < n; i++) m = z[i] > m || z[i] != z[i] ? z[i] : m;
    if (m > top || m != m) top = m;
    if (top != top) break;
  }
  double total = 0, weighted = 0;
  for (int64_t from = 0; from < v; from += kSpan) {
    const int64_t n = v - from < kSpan ? v - from : kSpan;
    fill(logits, from, n, offset, t, bits, z);
    vf s{}, sz{};
    int64_t i = 0;
    for (; i + W <= n; i += W) {
      const vf x = load(z + i), e = exp(x - top);
      s += e;
      sz += e * x;
    }
    double a = sum(s), b = sum(sz);
    for (; i < n; i++) {
      const float e = exp(z[i] - top);
      a += e;
      b += e * z[i];
    }
    total += a;
    weighted += b;
  }
  stats[0] = top;
  stats[1] = total;
  stats[2] = weighted;
  stats[3] = NAN;
  const int64_t own = target - offset;
  if (target >= 0 && own >= 0 && own < v) {
    const bool in = !bits || (bits[target >> 6] >> (target & 63) & 1);
    stats[3] = in ? logits[own] / t : -INFINITY;
  }
}

// dL/dlogit_j = (1/T)·[dlp·(δ_jy − p_j) − dent·p_j·(log p_j + H)]
void logit_grad(float* logits, int64_t v, int64_t offset, float t, const uint64_t* bits, int32_t target, double lse,
                double entropy, double dlp, double dent) {
  float z[kSpan];
  const float l = static_cast<float>(lse), h = static_cast<float>(entropy);
  const float a = static_cast<float>(dlp / t), b = static_cast<float>(dent / t);
  for (int64_t from = 0; from < v; from += kSpan) {
    const int64_t n = v - from < kSpan ? v - from : kSpan;
    fill(logits, from, n, offset, t, bits, z);
    int64_t i = 0;
    for (; i + W <= n; i += W) {
      const vf lp = load(z + i) - l, p = exp(lp);
      store(logits + from + i, -p * a - p * (lp + h) * b);
    }
    for (; i < n; i++) {
      const float lp = z[i] - l, p = exp(lp);
      logits[from + i] = -p * a - p * (lp + h) * b;
    }
  }
  const int64_t own = target - offset;
  if (own >= 0 && own < v) logits[own] += a;
}

}  // namespace sead::SEAD_ISA
