// The policy over logits, row by row: statistics, gradient and sampling.
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "guard.h"
#include "kernels/kernels.h"

namespace sead {

static const uint64_t* bits_of(const sn_sets& sets, int32_t set) {
  return set == 0 ? nullptr : sets.bits + static_cast<int64_t>(set) * sets.words;
}

static void check_logits(const char* op, const at::Tensor& l) {
  TORCH_CHECK(l.dim() == 2 && (l.is_cpu() || l.is_meta()) && l.scalar_type() == at::kFloat && l.is_contiguous(), op,
              ": logits must be a contiguous fp32 [rows, vocabulary] on the CPU, not ", l.scalar_type(), " ", l.sizes(), " on ", l.device());
}

static void check_set(const char* op, int64_t row, int32_t set, const sn_sets& sets, int64_t last) {
  if (set == 0) return;
  TORCH_CHECK_INDEX(set > 0 && set < sets.count, op, ": row ", row, " names allowed set ", set, " of ", sets.count);
  TORCH_CHECK(last <= int64_t{64} * sets.words, op, ": logits of ids up to ", last, " for sets of a vocabulary of at most ", 64 * sets.words);
}

static void check_rows(const char* op, const at::Tensor& l, int64_t offset, const float* temperature, const int32_t* set, const sn_sets& sets) {
  check_logits(op, l);
  TORCH_CHECK_VALUE(offset >= 0, op, ": vocabulary offset ", offset);
  for (int64_t i = 0; i < l.size(0); i++) {
    TORCH_CHECK_VALUE(temperature[i] > 0, op, ": row ", i, " has temperature ", temperature[i], ", it must be above 0");
    check_set(op, i, set[i], sets, offset + l.size(1));
  }
}

// Rows that keep a thread busy for longer than waking it takes.
static int64_t rows_grain(int64_t v) { return 1 + 16384 / (v + 1); }

struct Candidate {
  float z, p;  // p = exp(z - top)
  int32_t id;
};
// Best first: the order in which top-k and top-p keep ids.
static bool before(const Candidate& a, const Candidate& b) { return a.z != b.z ? a.z > b.z : a.id < b.id; }

// One row, span by span.
struct Row {
  const float* logits;
  int64_t v;
  float t, top;
  const uint64_t* bits;

  // f(first id, n, z, p, sum of p) for every span that holds an allowed id, until it gives false
  template <typename F>
  void spans(F f) const {
    float z[kSpan], p[kSpan];
    for (int64_t from = 0; from < v; from += kSpan) {
      const int64_t n = std::min(kSpan, v - from);
      const double sum = kernels().logit_probs(logits, from, n, t, bits, top, z, p);
      if (sum >= 0 && !f(from, n, z, p, sum)) return;
    }
  }
  // The ids in order of z lie in buckets of 1/16: a cut is found without sorting.
  static constexpr int kBuckets = 1024, kPerUnit = 16;
  int bucket(float z) const { return static_cast<int>(std::min((top - z) * kPerUnit, kBuckets - 1.0f)); }
};

// The id at which the running sum of p passes want.
static int32_t draw_plain(const Row& row, double want) {
  int32_t id = -1;
  row.spans([&](int64_t from, int64_t n, const float*, const float* p, double part) {
    if (part <= want) {
      want -= part;
      return true;
    }
    for (int64_t i = 0; i < n && (id < 0 || want >= 0); i++)
      if (p[i] > 0) id = static_cast<int32_t>(from + i), want -= p[i];
    return false;
  });
  if (id < 0)  // rounding left want beyond the end: the last possible id
    row.spans([&](int64_t from, int64_t n, const float*, const float* p, double) {
      for (int64_t i = 0; i < n; i++)
        if (p[i] > 0) id = static_cast<int32_t>(from + i);
      return true;
    });
  return id;
}

// The bucket in which the prefix that top-k (or, without it, top-p) keeps ends, and the mass of the buckets before it.
static std::pair<int, double> find_cut(const Row& row, int32_t top_k, double mass_wanted) {
  std::vector<int32_t> count(Row::kBuckets);
  std::vector<double> mass(Row::kBuckets);
  row.spans([&](int64_t, int64_t n, const float* z, const float* p, double) {
    for (int64_t i = 0; i < n; i++) {
      if (z[i] == kOut) continue;
      const int b = row.bucket(z[i]);
      count[b]++;
      mass[b] += p[i];
    }
    return true;
  });
  int64_t seen = 0;
  double above = 0;
  int b = 0;
  for (; b + 1 < Row::kBuckets; b++) {
    seen += count[b];
    if (top_k > 0 ? seen >= top_k : above + mass[b] >= mass_wanted) break;
    above += mass[b];
  }
  return {b, above};
}

// The candidates that top-k, then top-p, then min-p leave. Each acts on what the one before it left, as Hugging Face's
// processors do, and each keeps a prefix of the ids in descending order (equal logits: by id, and exactly k of them).
static std::vector<Candidate> truncate(const Row& row, const sn_draw& d, double total) {
  const bool by_count = d.top_k > 0, by_mass = d.top_p < 1;
  const float floor = std::min(d.min_p, 1.0f);  // the best id has p = 1 and always stays
  int cut = Row::kBuckets;
  double above = 0;
  if (by_count || by_mass) std::tie(cut, above) = find_cut(row, d.top_k, d.top_p * total);
  // Most ids lie far below the cut: one comparison, a bucket too generous, is all they cost.
  const float low = cut + 1 < Row::kBuckets ? row.top - static_cast<float>(cut + 2) / Row::kPerUnit : kOut / 2;
  std::vector<Candidate> c;
  row.spans([&](int64_t from, int64_t n, const float* z, const float* p, double) {
    for (int64_t i = 0; i < n; i++)
      if (z[i] > low && (by_count || p[i] >= floor) && row.bucket(z[i]) <= cut) c.push_back({z[i], p[i], static_cast<int32_t>(from + i)});
    return true;
  });
  // Only what lies in the last bucket needs an order; for top-k before top-p all that is left does.
  auto rest = by_count ? c.begin() : std::partition(c.begin(), c.end(), [&](const Candidate& x) { return row.bucket(x.z) < cut; });
  std::sort(rest, c.end(), before);
  if (by_count) {
    if (static_cast<size_t>(d.top_k) < c.size()) c.resize(d.top_k);
    rest = c.begin();
    total = above = 0;
    for (const auto& x : c) total += x.p;
  }
  if (by_mass) {
    while (rest != c.end() && (rest == c.begin() || above < d.top_p * total)) above += (rest++)->p;
    c.erase(rest, c.end());
  }
  c.erase(std::remove_if(c.begin(), c.end(), [&](const Candidate& x) { return x.p < floor; }), c.end());
  return c;
}

static sn_drawn sample_row(const float* logits, int64_t v, const sn_draw& d, const uint64_t* bits) {
  const bool greedy = d.temperature <= 0;
  const float t = greedy ? 1.0f : d.temperature;
  double st[4];
  kernels().logit_stats(logits, v, 0, t, bits, -1, st);
  if (st[1] == 0) return {SN_NOTHING_ALLOWED, NAN, 0};
  if (!std::isfinite(st[0]) || !std::isfinite(st[1]) || !std::isfinite(st[2])) return {SN_NOT_FINITE, NAN, 0};
  const Row row{logits, v, t, static_cast<float>(st[0]), bits};
  const double total = st[1];
  int32_t id = -1;
  double kept = total;
  if (greedy) {
    row.spans([&](int64_t from, int64_t n, const float* z, const float*, double) {
      const auto* best = std::find(z, z + n, row.top);
      if (best != z + n) id = static_cast<int32_t>(from + (best - z));
      return id < 0;
    });
  } else if (d.top_k <= 0 && d.top_p >= 1 && d.min_p <= 0) {
    id = draw_plain(row, d.u * total);
  } else {
    const auto c = truncate(row, d, total);
    kept = 0;
    for (const auto& x : c) kept += x.p;
    double want = d.u * kept;
    for (const auto& x : c) {
      if (x.p > 0) id = x.id;
      if ((want -= x.p) < 0) break;
    }
  }
  const double log_prob = logits[id] / t - (st[0] + std::log(total));
  return {id, static_cast<float>(log_prob), static_cast<float>(std::min(1.0, kept / total))};
}

}  // namespace sead

using namespace sead;

extern "C" {

sn_status sn_logit_stats(sn_tensor logits, int64_t offset, const float* temperature, const int32_t* set, sn_sets sets,
                         const int32_t* target, double* stats) {
  GUARD({
    const auto& l = T(logits);
    check_rows("logit_stats", l, offset, temperature, set, sets);
    const int64_t n = l.size(0), v = l.size(1);
    if (l.is_meta()) {
      for (int64_t i = 0; i < 4 * n; i++) stats[i] = i % 4 == 1;
      return sn_status{SN_OK, nullptr};
    }
    const auto* p = l.const_data_ptr<float>();
    at::parallel_for(0, n, rows_grain(v), [&](int64_t a, int64_t b) {
      for (int64_t i = a; i < b; i++)
        kernels().logit_stats(p + i * v, v, offset, temperature[i], bits_of(sets, set[i]), target[i], stats + 4 * i);
    });
  })
}

sn_status sn_logit_grad_(sn_tensor logits, int64_t offset, const float* temperature, const int32_t* set, sn_sets sets,
                         const int32_t* target, const double* lse, const double* entropy, const double* dlp, const double* dent) {
  GUARD({
    const auto& l = T(logits);
    check_rows("logit_grad_", l, offset, temperature, set, sets);
    if (l.is_meta()) return sn_status{SN_OK, nullptr};
    const int64_t v = l.size(1);
    auto* p = l.mutable_data_ptr<float>();
    at::parallel_for(0, l.size(0), rows_grain(v), [&](int64_t a, int64_t b) {
      for (int64_t i = a; i < b; i++)
        kernels().logit_grad(p + i * v, v, offset, temperature[i], bits_of(sets, set[i]), target[i], lse[i], entropy[i], dlp[i], dent[i]);
    });
  })
}

sn_status sn_sample(sn_tensor logits, const sn_draw* draws, sn_sets sets, sn_drawn* out) {
  GUARD({
    const auto& l = T(logits);
    check_logits("sample", l);
    TORCH_CHECK_NOT_IMPLEMENTED(!l.is_meta(), "sample: meta logits have no values to draw from");
    const int64_t v = l.size(1);
    for (int64_t i = 0; i < l.size(0); i++) check_set("sample", i, draws[i].set, sets, v);
    const auto* p = l.const_data_ptr<float>();
    at::parallel_for(0, l.size(0), rows_grain(v), [&](int64_t a, int64_t b) {
      for (int64_t i = a; i < b; i++) out[i] = sample_row(p + i * v, v, draws[i], bits_of(sets, draws[i].set));
    });
  })
}

}  // extern "C"
