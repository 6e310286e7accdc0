// The policy over logits: statistics, gradient and sampling over allowed sets, at vocabulary sizes around the vector
// widths and the 512 logits that are handled at a time.
#include "test.h"

static const int64_t vocabularies[] = {1, 3, 8, 17, 63, 64, 65, 511, 512, 513, 1000};

// A table of two sets: 0 is everything, 1 is every third id and the last.
struct Sets {
  std::vector<uint64_t> bits;
  int words;
  int64_t v;
  explicit Sets(int64_t vocabulary) : words(static_cast<int>((vocabulary + 63) / 64)), v(vocabulary) {
    bits.resize(2 * words);
    for (int64_t i = 0; i < v; i++)
      if (has(i)) bits[words + i / 64] |= uint64_t{1} << (i % 64);
  }
  bool has(int64_t id) const { return id % 3 == 0 || id == v - 1; }
  sn_sets c() const { return {bits.data(), words, 2}; }
};

TEST(logit_stats_and_gradient) {
  for (int64_t v : vocabularies) {
    const Sets sets(v);
    const int64_t n = 2;
    const auto l = random_values(n * v, 1);
    const float t[] = {1.0f, 0.7f};
    const int32_t set[] = {0, 1}, target[] = {0, static_cast<int32_t>(v - 1)};
    Tensor logits({n, v}, l);
    double stats[8], lse[2], entropy[2];
    const double dlp[] = {0.5, -2}, dent[] = {0.1, 0.3};
    OK(sn_logit_stats(logits, 0, t, set, sets.c(), target, stats));
    std::vector<double> want;
    for (int64_t i = 0; i < n; i++) {
      double top = -1e300, sum = 0, weighted = 0;
      const auto in = [&](int64_t j) { return i == 0 || sets.has(j); };
      const auto z = [&](int64_t j) { return double(l[i * v + j]) / t[i]; };
      for (int64_t j = 0; j < v; j++) if (in(j)) top = std::max(top, z(j));
      for (int64_t j = 0; j < v; j++) if (in(j)) sum += std::exp(z(j) - top), weighted += std::exp(z(j) - top) * z(j);
      lse[i] = top + std::log(sum), entropy[i] = lse[i] - weighted / sum;
      const double got = stats[4 * i] + std::log(stats[4 * i + 1]);
      CHECK(std::fabs(got - lse[i]) < 2e-6 * (1 + std::fabs(lse[i])), "lse %g, want %g (v %ld)", got, lse[i], static_cast<long>(v));
      CHECK(std::fabs(stats[4 * i + 3] - z(target[i])) < 1e-6, "target %g", stats[4 * i + 3]);
      for (int64_t j = 0; j < v; j++) {
        // d log π(y)/dl_j = (1[j=y] - p_j)/T; dH/dl_j = -p_j (log p_j + H)/T
        const double p = in(j) ? std::exp(z(j) - lse[i]) : 0;
        want.push_back(in(j) ? (dlp[i] * ((j == target[i]) - p) - dent[i] * p * (z(j) - lse[i] + entropy[i])) / t[i] : 0);
      }
    }
    OK(sn_logit_grad_(logits, 0, t, set, sets.c(), target, lse, entropy, dlp, dent));
    near("logit_grad", logits.values(), want, 5e-6);
  }
}

TEST(sampling_stays_inside_its_set) {
  for (int64_t v : vocabularies) {
    const Sets sets(v);
    const auto l = random_values(v, 2);
    for (const sn_draw& kind : {sn_draw{0, 1, 0, 0, 1, 0}, sn_draw{1, 1, 0, 0, 1, 0}, sn_draw{1, 0.8f, 0, 0, 1, 0}, sn_draw{0.5f, 1, 0, 5, 1, 0},
                                sn_draw{2, 0.9f, 0.05f, 7, 1, 0}, sn_draw{1, 1, 0.5f, 0, 0, 0}})
      for (double u : {0.0, 0.37, 0.999999999}) {
        Tensor logits({1, v}, l);
        sn_draw draw = kind;
        draw.u = u;
        sn_drawn out{-9, 0, 0};
        OK(sn_sample(logits, &draw, sets.c(), &out));
        CHECK(out.id >= 0 && out.id < v && (draw.set == 0 || sets.has(out.id)), "id %d of %ld", out.id, static_cast<long>(v));
        CHECK(std::isfinite(out.log_prob) && out.log_prob <= 1e-6 && out.kept > 0 && out.kept <= 1, "log-prob %g, kept %g", out.log_prob, out.kept);
      }
  }
}

TEST(rows_that_cannot_be_drawn_from) {
  Tensor logits({2, 3}, {1, NAN, 2, 1, 2, 3});
  const uint64_t bits[] = {0, 0};  // set 1 holds nothing
  const sn_draw draws[] = {{1, 1, 0, 0, 0, 0.5}, {1, 1, 0, 0, 1, 0.5}}, foreign[] = {{1, 1, 0, 0, 2, 0.5}, {1, 1, 0, 0, -1, 0.5}};
  sn_drawn out[2];
  OK(sn_sample(logits, draws, {bits, 1, 2}, out));
  CHECK(out[0].id == SN_NOT_FINITE && out[1].id == SN_NOTHING_ALLOWED, "%d %d", out[0].id, out[1].id);
  FAILS(sn_sample(logits, foreign, {bits, 1, 2}, out), SN_INDEX, "allowed set 2 of 2");
  const float t[] = {1, 0};
  const int32_t set[] = {0, 0}, target[] = {0, 0};
  double stats[8];
  FAILS(sn_logit_stats(logits, 0, t, set, {bits, 1, 2}, target, stats), SN_VALUE, "temperature 0");
}
