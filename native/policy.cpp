// The policy over logits: statistics, gradient and sampling, row by row.
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "guard.h"
#include "kernels/kernels.h"

namespace sead {

static const uint64_t* bits_of(sn_sets sets, int32_t set) {
  return set <= 0 ? nullptr : sets.bits + static_cast<int64_t>(set) * sets.words;
}

static void check_logits(const at::Tensor& l) {
  TORCH_CHECK(l.dim() == 2 && l.is_cpu() && l.scalar_type() == at::kFloat && l.is_contiguous(),
              "logits must be a contiguous fp32 [rows, vocabulary] on the CPU, not ", l.scalar_type(), " ", l.sizes());
}

struct Candidate {
  float z;
  int32_t id;
};
static bool before(const Candidate& a, const Candidate& b) { return a.z != b.z ? a.z > b.z : a.id < b.id; }

// Keeps the ids that top-k, then top-p, then min-p leave, in descending order. Each acts on what the one before it left,
// as Hugging Face's processors do. p is exp(z - top); total their sum over the allowed set.
static void truncate(std::vector<Candidate>& c, const sn_draw& d, double top, double total) {
  size_t sorted = 0;  // c[0, sorted) is in order and holds the largest
  const auto sort_to = [&](size_t n) {
    n = std::min(n, c.size());
    if (n <= sorted) return;
    if (n < c.size()) std::nth_element(c.begin() + sorted, c.begin() + n - 1, c.end(), before);
    std::sort(c.begin() + sorted, c.begin() + n, before);
    sorted = n;
  };
  if (d.top_k > 0 && static_cast<size_t>(d.top_k) < c.size()) {
    sort_to(d.top_k);
    c.resize(d.top_k);
    total = 0;
    for (const auto& x : c) total += std::exp(x.z - top);
  }
  if (d.top_p < 1) {
    double sum = 0;
    size_t i = 0;
    for (size_t step = 64; i < c.size(); i++) {
      if (i >= sorted) sort_to(sorted + step), step *= 4;
      sum += std::exp(c[i].z - top);
      if (sum >= d.top_p * total) break;
    }
    c.resize(std::min(c.size(), i + 1));
  }
  if (d.min_p > 0) {
    size_t keep = 0;
    for (const auto& x : c)
      if (std::exp(x.z - top) >= d.min_p) c[keep++] = x;
    c.resize(std::max<size_t>(1, keep));
  }
}

static sn_drawn sample_row(const float* logits, int64_t v, const sn_draw& d, const uint64_t* bits, int64_t row) {
  const bool greedy = d.temperature <= 0;
  const float t = greedy ? 1.0f : d.temperature;
  double st[4];
  kernels().logit_stats(logits, v, 0, t, bits, -1, st);
  TORCH_CHECK_VALUE(std::isfinite(st[0]) && std::isfinite(st[1]), "sample: row ", row, " holds NaN or Inf");
  TORCH_CHECK_VALUE(st[0] > -1e29, "sample: row ", row, " has an empty allowed set (", d.set, ")");
  const double lse = st[0] + std::log(st[1]);
  const auto in = [&](int64_t j) { return !bits || (bits[j >> 6] >> (j & 63) & 1); };
  const auto drawn = [&](int32_t id, double kept) {
    return sn_drawn{id, static_cast<float>(logits[id] / t - lse), static_cast<float>(std::min(1.0, kept))};
  };
  if (greedy) {
    int32_t best = -1;
    for (int64_t j = 0; j < v; j++)
      if (in(j) && (best < 0 || logits[j] > logits[best])) best = static_cast<int32_t>(j);
    return drawn(best, 1);
  }
  if (d.top_k <= 0 && d.top_p >= 1 && d.min_p <= 0) {
    const double want = d.u * st[1];
    double sum = 0;
    int32_t last = -1;
    for (int64_t j = 0; j < v; j++) {
      if (!in(j)) continue;
      const double p = std::exp(static_cast<double>(logits[j] / t) - st[0]);
      if (p <= 0) continue;
      sum += p;
      last = static_cast<int32_t>(j);
      if (sum > want) break;
    }
    return drawn(last, 1);
  }
  std::vector<Candidate> c;
  c.reserve(bits ? 1024 : v);
  for (int64_t j = 0; j < v; j++)
    if (in(j)) c.push_back({logits[j] / t, static_cast<int32_t>(j)});
  truncate(c, d, st[0], st[1]);
  double kept = 0, sum = 0;
  for (const auto& x : c) kept += std::exp(x.z - st[0]);
  size_t i = 0;
  for (; i + 1 < c.size(); i++) {
    sum += std::exp(c[i].z - st[0]);
    if (sum > d.u * kept) break;
  }
  return drawn(c[i].id, kept / st[1]);
}

}  // namespace sead

using namespace sead;

extern "C" {

sn_status sn_logit_stats(sn_tensor logits, int64_t offset, const float* temperature, const int32_t* set, sn_sets sets,
                         const int32_t* target, double* stats) {
  GUARD({
    const auto& l = T(logits);
    check_logits(l);
    const int64_t v = l.size(1);
    const auto* p = l.const_data_ptr<float>();
    at::parallel_for(0, l.size(0), 1 + 16384 / (v + 1), [&](int64_t a, int64_t b) {
      for (int64_t i = a; i < b; i++)
        kernels().logit_stats(p + i * v, v, offset, temperature[i], bits_of(sets, set[i]), target[i], stats + 4 * i);
    });
  })
}

sn_status sn_logit_grad_(sn_tensor logits, int64_t offset, const float* temperature, const int32_t* set, sn_sets sets,
                         const int32_t* target, const double* lse, const double* entropy, const double* dlp, const double* dent) {
  GUARD({
    const auto& l = T(logits);
    check_logits(l);
    const int64_t v = l.size(1);
    auto* p = l.data_ptr<float>();
    at::parallel_for(0, l.size(0), 1 + 16384 / (v + 1), [&](int64_t a, int64_t b) {
      for (int64_t i = a; i < b; i++)
        kernels().logit_grad(p + i * v, v, offset, temperature[i], bits_of(sets, set[i]), target[i], lse[i], entropy[i], dlp[i], dent[i]);
    });
  })
}

sn_status sn_sample(sn_tensor logits, const sn_draw* draws, sn_sets sets, sn_drawn* out) {
  GUARD({
    const auto& l = T(logits);
    check_logits(l);
    const int64_t v = l.size(1);
    const auto* p = l.const_data_ptr<float>();
    at::parallel_for(0, l.size(0), 1 + 8192 / (v + 1), [&](int64_t a, int64_t b) {
      for (int64_t i = a; i < b; i++) out[i] = sample_row(p + i * v, v, draws[i], bits_of(sets, draws[i].set), i);
    });
  })
}

}  // extern "C"
