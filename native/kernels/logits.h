// The policy's soft-max over one row of logits: statistics (engine and trainer), probabilities (sampling) and gradient
// (trainer). z = logit / T; ids outside the allowed set take no part. Sums run in float over one span of kSpan ids and in
// double across spans.
#pragma once
#include "kernels.h"
#include "simd.h"

namespace sead::SEAD_ISA {

// z of ids [from, from + n) of a row; n <= kSpan. False if none of them is allowed: z is not written then.
inline bool fill(const float* logits, int64_t from, int64_t n, int64_t offset, float t, const uint64_t* bits, float* z) {
  const int64_t id = offset + from, end = id + n;
  if (bits) {
    uint64_t any = 0;
    for (int64_t w = id >> 6; w <= (end - 1) >> 6; w++) any |= bits[w];
    if (!any) return false;
  }
  int64_t i = 0;
  for (; i + W <= n; i += W) store(z + i, load(logits + from + i) / splat(t));
  for (; i < n; i++) z[i] = logits[from + i] / t;
  if (!bits) return true;
  for (int64_t a = id; a < end;) {
    const int64_t stop = (a | 63) + 1 < end ? (a | 63) + 1 : end;
    const uint64_t w = bits[a >> 6];
    for (; w != ~uint64_t{0} && a < stop; a++)
      if (!(w >> (a & 63) & 1)) z[a - id] = kOut;
    a = stop;
  }
  return true;
}

// The largest of n values; NaN if there is one.
inline float largest(const float* z, int64_t n) {
  vf best = splat(kOut);
  int64_t i = 0;
  for (; i + W <= n; i += W) {
    const vf x = load(z + i);
    best = x > best ? x : best;
    best = x != x ? x : best;
  }
  float m = kOut;
  for (int k = 0; k < W; k++) m = best[k] > m || best[k] != best[k] ? best[k] : m;
  for (; i < n; i++) m = z[i] > m || z[i] != z[i] ? z[i] : m;
  return m;
}

void logit_stats(const float* logits, int64_t v, int64_t offset, float t, const uint64_t* bits, int32_t target,
                 double* stats) {
  float z[kSpan];
  float top = kOut;
  for (int64_t from = 0; from < v && top == top; from += kSpan) {
    const int64_t n = v - from < kSpan ? v - from : kSpan;
    if (!fill(logits, from, n, offset, t, bits, z)) continue;
    const float m = largest(z, n);
    if (m > top || m != m) top = m;
  }
  double total = 0, weighted = 0;
  for (int64_t from = 0; from < v && top != kOut; from += kSpan) {
    const int64_t n = v - from < kSpan ? v - from : kSpan;
    if (!fill(logits, from, n, offset, t, bits, z)) continue;
    vf s{}, sx{};
    int64_t i = 0;
    for (; i + W <= n; i += W) {
      const vf x = load(z + i) - top, e = exp(x);
      s += e;
      sx += e * x;
    }
    double a = sum(s), b = sum(sx);
    for (; i < n; i++) {
      const float x = z[i] - top, e = exp(x);
      a += e;
      b += e * x;
    }
    total += a;
    weighted += b + a * top;  // float sums of e·z itself would lose the entropy's digits when logits are large
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

// z and p = exp(z - top) of one span; the sum of p, or -1 if no id of the span is allowed.
double logit_probs(const float* logits, int64_t from, int64_t n, float t, const uint64_t* bits, float top, float* z, float* p) {
  if (!fill(logits, from, n, 0, t, bits, z)) return -1;
  vf s{};
  int64_t i = 0;
  for (; i + W <= n; i += W) {
    const vf e = exp(load(z + i) - top);
    s += e;
    store(p + i, e);
  }
  double total = sum(s);
  for (; i < n; i++) total += p[i] = exp(z[i] - top);
  return total;
}

// dL/dlogit_j = (1/T)·[dlp·(δ_jy − p_j) − dent·p_j·(log p_j + H)]
void logit_grad(float* logits, int64_t v, int64_t offset, float t, const uint64_t* bits, int32_t target, double lse,
                double entropy, double dlp, double dent) {
  float z[kSpan];
  // lse in two parts: rounding it alone would cost p a digit or two when logits are large.
  const float l = static_cast<float>(lse), rest = static_cast<float>(lse - l), h = static_cast<float>(entropy);
  const float a = static_cast<float>(dlp / t), b = static_cast<float>(dent / t);
  for (int64_t from = 0; from < v; from += kSpan) {
    const int64_t n = v - from < kSpan ? v - from : kSpan;
    if (!fill(logits, from, n, offset, t, bits, z)) {
      std::memset(logits + from, 0, n * sizeof(float));
      continue;
    }
    int64_t i = 0;
    for (; i + W <= n; i += W) {
      const vf lp = load(z + i) - l - rest, p = exp(lp);
      store(logits + from + i, -p * a - p * (lp + h) * b);
    }
    for (; i < n; i++) {
      const float lp = z[i] - l - rest, p = exp(lp);
      logits[from + i] = -p * a - p * (lp + h) * b;
    }
  }
  const int64_t own = target - offset;
  if (target >= 0 && own >= 0 && own < v) logits[own] += a;
}

}  // namespace sead::SEAD_ISA
