// The kernels of every instruction set that this processor has, on random sizes, against plain loops in double. Buffers are
// exactly as long as they must be: AddressSanitizer sees a read or write beyond.
#include "kernels/kernels.h"

#include <functional>

#include "test.h"

using sead::CacheRow;
using sead::Kernels;
using sead::kBlock;
using sead::kTileRows;

#define NEAR(got, want, tolerance)                                                                    \
  do {                                                                                                \
    const double g_ = (got), w_ = (want);                                                             \
    CHECK(std::fabs(g_ - w_) <= (tolerance) * std::fmax(1, std::fabs(w_)), "%.9g, want %.9g", g_, w_); \
  } while (0)

static std::mt19937_64 rng(7);
static int64_t upto(int64_t n) { return static_cast<int64_t>(rng() % static_cast<uint64_t>(n)) + 1; }
static std::vector<float> normal(int64_t n, float scale = 1) {
  std::normal_distribution<float> d;
  std::vector<float> v(n);
  for (auto& x : v) x = scale * d(rng);
  return v;
}

static void each(const std::function<void(const Kernels&)>& f) {
  for (const auto* k : {&sead::kernels_generic, &sead::kernels_avx2, &sead::kernels_avx512}) {
    if (!sead::supported(*k)) {
      printf("skip %s: this processor does not have it\n", k->name);
      continue;
    }
    rng.seed(7);
    for (int i = 0; i < 100; i++) f(*k);
  }
}

TEST(fuzz_rms_norm) {
  each([](const Kernels& k) {
    const int64_t rows = upto(5), c = upto(150);
    const auto x = normal(rows * c), w = normal(c), dy = normal(rows * c), dw0 = normal(c);
    std::vector<float> y(rows * c), rstd(rows), dx(rows * c), dw = dw0;
    k.rms_norm(x.data(), w.data(), y.data(), rstd.data(), rows, c, 1e-5f);
    k.rms_norm_backward(dy.data(), x.data(), w.data(), rstd.data(), dx.data(), dw.data(), rows, c);
    std::vector<double> want_dw(dw0.begin(), dw0.end());
    for (int64_t r = 0; r < rows; r++) {
      const auto* xr = &x[r * c];
      const auto* g = &dy[r * c];
      double ss = 0, m = 0;
      for (int64_t i = 0; i < c; i++) ss += double(xr[i]) * xr[i];
      const double s = 1 / std::sqrt(ss / c + 1e-5f);
      for (int64_t i = 0; i < c; i++) m += double(g[i]) * w[i] * xr[i] * s / c;
      for (int64_t i = 0; i < c; i++) {
        NEAR(y[r * c + i], xr[i] * s * w[i], 1e-5);
        NEAR(dx[r * c + i], s * (double(g[i]) * w[i] - xr[i] * s * m), 2e-5 * std::fmax(1, s));
        want_dw[i] += g[i] * xr[i] * s;
      }
    }
    for (int64_t i = 0; i < c; i++) NEAR(dw[i], want_dw[i], 1e-5);
    // Added first, the same bits.
    const auto more = normal(rows * c);
    auto stream = x, sum = x;
    for (int64_t i = 0; i < rows * c; i++) sum[i] += more[i];
    std::vector<float> out(rows * c);
    k.add_rms_norm(stream.data(), more.data(), w.data(), out.data(), rows, c, 1e-5f);
    k.rms_norm(sum.data(), w.data(), y.data(), rstd.data(), rows, c, 1e-5f);
    CHECK(stream == sum && out == y, "%s: %ld rows of %ld", k.name, long(rows), long(c));
  });
}

TEST(fuzz_rope) {
  each([](const Kernels& k) {
    const int64_t rows = upto(4), h = upto(3), half = upto(40), d = 2 * half, stride = h * d + upto(7);
    const auto x = normal((rows - 1) * stride + h * d), cos = normal(9 * half), sin = normal(9 * half);
    std::vector<int64_t> pos(rows);
    for (auto& p : pos) p = upto(9) - 1;
    for (float sign : {1.f, -1.f}) {
      std::vector<float> y(rows * h * d);
      k.rope(x.data(), stride, cos.data(), sin.data(), pos.data(), y.data(), rows, h, d, sign);
      for (int64_t r = 0; r < rows; r++)
        for (int64_t a = 0; a < h; a++)
          for (int64_t i = 0; i < half; i++) {
            const double u = x[r * stride + a * d + i], v = x[r * stride + a * d + half + i];
            const double c = cos[pos[r] * half + i], s = sign * sin[pos[r] * half + i];
            NEAR(y[(r * h + a) * d + i], u * c - v * s, 1e-5);
            NEAR(y[(r * h + a) * d + half + i], v * c + u * s, 1e-5);
          }
    }
  });
}

TEST(fuzz_swiglu) {
  each([](const Kernels& k) {
    const int64_t rows = upto(4), f = upto(100);
    const auto gu = normal(rows * 2 * f, 6), dy = normal(rows * f);
    std::vector<float> y(rows * f), d(rows * 2 * f);
    k.swiglu(gu.data(), y.data(), rows, f);
    k.swiglu_backward(dy.data(), gu.data(), d.data(), rows, f);
    for (int64_t r = 0; r < rows; r++)
      for (int64_t i = 0; i < f; i++) {
        const double g = gu[r * 2 * f + i], u = gu[r * 2 * f + f + i], s = 1 / (1 + std::exp(-g)), e = dy[r * f + i];
        NEAR(y[r * f + i], g * s * u, 1e-5);
        NEAR(d[r * 2 * f + i], e * u * s * (1 + g * (1 - s)), 1e-5);
        NEAR(d[r * 2 * f + f + i], e * g * s, 1e-5);
      }
  });
}

TEST(fuzz_cache_attention) {
  each([](const Kernels& k) {
    const int64_t kv = upto(3), g = upto(4), d = upto(90), length = upto(110), from = upto(kv) - 1, to = from + upto(kv - from);
    const int64_t used = (length + kBlock - 1) / kBlock, blocks = used + 2;
    auto keys = normal(blocks * kv * d * kBlock), values = normal(blocks * kv * kBlock * d);
    const auto q = normal(kv * g * d);
    std::vector<int32_t> table(used);
    std::vector<bool> mine(blocks);
    for (auto& b : table) {
      do b = static_cast<int32_t>(upto(blocks) - 1);
      while (mine[b]);
      mine[b] = true;
    }
    const auto base = [&](int64_t head, int64_t t) { return (table[t / kBlock] * kv + head) * d * kBlock; };
    for (int64_t head = 0; head < kv; head++)
      for (int64_t t = length; t < used * kBlock; t++)  // behind the end: what must not be seen
        for (int64_t i = 0; i < d; i++) keys[base(head, t) + i * kBlock + t % kBlock] = values[base(head, t) + (t % kBlock) * d + i] = NAN;
    std::vector<float> out(kv * g * d, 7);
    const float scale = 1 / std::sqrt(static_cast<float>(d));
    const CacheRow row{q.data(), out.data(), table.data(), length};
    k.cache_attention(&row, 1, 0, keys.data(), values.data(), kv, from, to, g, d, scale);
    for (int64_t a = 0; a < kv * g; a++) {
      const int64_t head = a / g;
      std::vector<double> p(length), want(d);
      double total = 0;
      for (int64_t t = 0; t < length; t++) {
        double s = 0;
        for (int64_t i = 0; i < d; i++) s += double(q[a * d + i]) * keys[base(head, t) + i * kBlock + t % kBlock];
        total += p[t] = std::exp(scale * s);
      }
      for (int64_t t = 0; t < length; t++)
        for (int64_t i = 0; i < d; i++) want[i] += p[t] / total * values[base(head, t) + (t % kBlock) * d + i];
      for (int64_t i = 0; i < d; i++) NEAR(out[a * d + i], head < from || head >= to ? 7 : want[i], 1e-5);
    }
  });
}

static std::vector<int64_t> sizes{1, 2, 3, 6, 7, 11, 12, 13, 17, 24, 25, 480, 481};

// Panels of every type, and plain rows, which have the bits of fp32 panels.
TEST(fuzz_linear) {
  each([](const Kernels& k) {
    using sead::Linear;
    const int64_t rows = upto(3) == 1 ? sizes[upto(sizes.size()) - 1] : upto(20), n = upto(70), c = upto(rows > 100 ? 20 : 3) == 1 ? upto(600) : upto(70);
    const auto type = static_cast<Linear::Type>(upto(3) - 1);
    const auto x = normal(rows * c), scale = normal(n), bias = normal(n);
    const int64_t panels = (n + sead::kPanel - 1) / sead::kPanel, size = panels * sead::kPanel * c;
    std::vector<float> plain(n * c), w(size), y(rows * n, NAN);
    std::vector<uint16_t> half(size);
    std::vector<int8_t> byte(size);
    const auto all = normal(n * c);
    for (int64_t j = 0; j < n; j++)
      for (int64_t i = 0; i < c; i++) {
        const int64_t at = (j / sead::kPanel * c + i) * sead::kPanel + j % sead::kPanel;
        float& v = plain[j * c + i];
        byte[at] = static_cast<int8_t>(upto(255) - 128);
        v = type == Linear::i8 ? byte[at] : all[j * c + i];
        uint32_t u;
        std::memcpy(&u, &v, 4);
        half[at] = static_cast<uint16_t>(u >> 16);
        if (type == Linear::bf16) u &= 0xffff0000, std::memcpy(&v, &u, 4);
        w[at] = v;
      }
    const void* as[] = {w.data(), half.data(), byte.data()};
    const bool scaled = upto(2) == 1, biased = upto(2) == 1;
    Linear l{type, x.data(), as[type], scaled ? scale.data() : nullptr, biased ? bias.data() : nullptr, y.data(), rows, n, c};
    const int64_t cut = upto(panels);
    k.linear(l, 0, cut);
    k.linear(l, cut, panels);
    for (int64_t r = 0; r < rows; r++)
      for (int64_t j = 0; j < n; j++) {
        double s = 0, size = 0;
        for (int64_t i = 0; i < c; i++) s += double(x[r * c + i]) * plain[j * c + i], size += std::fabs(double(x[r * c + i]) * plain[j * c + i]);
        const double want = s * (scaled ? scale[j] : 1) + (biased ? bias[j] : 0);
        NEAR(y[r * n + j] - want, 0, 2e-6 * size);
      }
    const auto same = [&](Linear l, int64_t r, const char* what) {
      std::vector<float> other(l.rows * n, NAN);
      l.y = other.data();
      k.linear(l, 0, panels);
      CHECK(std::memcmp(other.data(), &y[r * n], other.size() * sizeof(float)) == 0, "%s: row %ld of %ld differs %s", k.name, long(r), long(rows), what);
    };
    for (int64_t r = 0; r < rows; r += 1 + rows / 20) {
      const int64_t some = upto(std::min<int64_t>(rows - r, 14));
      same({l.type, &x[r * c], l.w, l.scale, l.bias, nullptr, 1, n, c}, r, "when it is alone");
      same({l.type, &x[r * c], l.w, l.scale, l.bias, nullptr, some, n, c}, r, "among few");
    }
    same({Linear::plain, x.data(), plain.data(), l.scale, l.bias, nullptr, rows, n, c}, 0, "as plain weights");
  });
}

// Rows that share blocks have the bits that they have alone.
TEST(fuzz_cache_attention_shared) {
  each([](const Kernels& k) {
    const int64_t kv = upto(3), g = upto(4), d = upto(90), from = upto(kv) - 1, to = from + upto(kv - from), n = upto(std::min<int64_t>(kTileRows, sead::kTileQueries / (g * (to - from)))), shared = upto(4) - 1, blocks = 40;
    const auto keys = normal(blocks * kv * d * kBlock), values = normal(blocks * kv * kBlock * d), q = normal(n * kv * g * d);
    std::vector<float> together(n * kv * g * d), alone(n * kv * g * d);
    std::vector<std::vector<int32_t>> tables(n, std::vector<int32_t>(shared + 3));
    std::vector<CacheRow> rows(n);
    for (int64_t r = 0; r < n; r++) {
      for (int64_t b = 0; b < shared + 3; b++) tables[r][b] = b < shared ? tables[0][b] = static_cast<int32_t>(7 * b + 1) : static_cast<int32_t>(upto(blocks) - 1);
      rows[r] = {&q[r * kv * g * d], &together[r * kv * g * d], tables[r].data(), std::max<int64_t>(1, shared * kBlock + upto(3 * kBlock + 1) - 1)};
    }
    k.cache_attention(rows.data(), n, shared, keys.data(), values.data(), kv, from, to, g, d, .3f);
    for (int64_t r = 0; r < n; r++) {
      rows[r].out = &alone[r * kv * g * d];
      for (int64_t h = from; h < to; h++) k.cache_attention(&rows[r], 1, upto(shared + 1) - 1, keys.data(), values.data(), kv, h, h + 1, g, d, .3f);
    }
    CHECK(together == alone, "%s: rows differ when they share blocks or their heads a call", k.name);
  });
}

// Causal attention of one head and its gradient; rows lie apart, dk and dv are added to.
TEST(fuzz_packed) {
  each([](const Kernels& k) {
    const int64_t n = upto(upto(5) == 1 ? 450 : 60), d = upto(6) * k.width, q_stride = d + upto(5), k_stride = d + upto(5), o_stride = d + upto(5);
    const float scale = 1 / std::sqrt(static_cast<float>(d));
    const auto q = normal((n - 1) * q_stride + d), key = normal((n - 1) * k_stride + d), v = normal((n - 1) * k_stride + d), g = normal((n - 1) * o_stride + d);
    std::vector<float> out((n - 1) * o_stride + d), lse(n), work(k.packed_work(n, d)), dq((n - 1) * q_stride + d), dk(key.size(), 1), dv(key.size(), 2);
    const sead::PackedHead h{n, d, scale, q.data(), key.data(), v.data(), q_stride, k_stride, k_stride, out.data(), lse.data(), o_stride};
    k.packed_forward(h, work.data());
    k.packed_backward(h, {g.data(), dq.data(), dk.data(), dv.data(), o_stride, q_stride, k_stride}, work.data());
    std::vector<double> want_k(n * d, 1), want_v(n * d, 2);
    for (int64_t i = 0; i < n; i++) {
      std::vector<double> p(i + 1), dp(i + 1), want(d), want_q(d);
      double total = 0, mean = 0;
      for (int64_t j = 0; j <= i; j++) {
        double s = 0;
        for (int64_t e = 0; e < d; e++) s += double(q[i * q_stride + e]) * key[j * k_stride + e], dp[j] += double(g[i * o_stride + e]) * v[j * k_stride + e];
        total += p[j] = std::exp(s * scale);
      }
      for (int64_t j = 0; j <= i; j++) p[j] /= total, mean += p[j] * dp[j];
      for (int64_t j = 0; j <= i; j++)
        for (int64_t e = 0; e < d; e++) {
          const double ds = p[j] * (dp[j] - mean) * scale;
          want[e] += p[j] * v[j * k_stride + e];
          want_q[e] += ds * key[j * k_stride + e];
          want_k[j * d + e] += ds * q[i * q_stride + e];
          want_v[j * d + e] += p[j] * g[i * o_stride + e];
        }
      NEAR(lse[i], std::log(total), 1e-5);
      for (int64_t e = 0; e < d; e++) {
        NEAR(out[i * o_stride + e], want[e], 1e-5);
        NEAR(dq[i * q_stride + e], want_q[e], 1e-5);
      }
    }
    for (int64_t j = 0; j < n; j++)
      for (int64_t e = 0; e < d; e++) {
        NEAR(dk[j * k_stride + e], want_k[j * d + e], 1e-5);
        NEAR(dv[j * k_stride + e], want_v[j * d + e], 1e-5);
      }
  });
}

TEST(fuzz_logits) {
  each([](const Kernels& k) {
    const int64_t v = upto(1200), offset = upto(200) - 1, vocabulary = offset + v;
    const auto logits = normal(v, 4);
    const float t = .3f + .1f * static_cast<float>(upto(20));
    std::vector<uint64_t> bits((vocabulary + 63) / 64);
    const double keep = upto(3) / 3.;
    for (auto& w : bits)
      for (int i = 0; i < 64 && upto(8) > 1; i++) w |= static_cast<uint64_t>(upto(1000) <= 1000 * keep) << i;
    const int32_t target = static_cast<int32_t>(offset + upto(v) - 1);
    bits[target >> 6] |= uint64_t{1} << (target & 63);
    const bool restricted = upto(2) == 1;
    const auto in = [&](int64_t j) { return !restricted || (bits[(offset + j) >> 6] >> ((offset + j) & 63) & 1); };
    double top = -INFINITY, total = 0, weighted = 0, st[4];
    for (int64_t j = 0; j < v; j++)
      if (in(j)) top = std::fmax(top, logits[j] / t);
    for (int64_t j = 0; j < v; j++)
      if (in(j)) total += std::exp(logits[j] / t - top), weighted += std::exp(logits[j] / t - top) * (logits[j] / t);
    k.logit_stats(logits.data(), v, offset, t, restricted ? bits.data() : nullptr, target, st);
    NEAR(st[0], top, 0);
    NEAR(st[1], total, 1e-5);
    NEAR(st[2], weighted, 1e-5);
    NEAR(st[3], logits[target - offset] / t, 0);
    auto grad = logits;
    const double lse = top + std::log(total), entropy = lse - weighted / total;
    k.logit_grad(grad.data(), v, offset, t, restricted ? bits.data() : nullptr, target, lse, entropy, .7, -.4);
    for (int64_t j = 0; j < v; j++) {
      const double lp = logits[j] / t - lse, p = in(j) ? std::exp(lp) : 0;
      NEAR(grad[j], (.7 * ((offset + j == target) - p) + .4 * p * (lp + entropy)) / t, 1e-5);
    }
    if (offset > 0) return;
    for (int64_t from = 0; from < v; from += sead::kSpan) {
      const int64_t n = std::min(sead::kSpan, v - from);
      std::vector<float> z(n), p(n);
      const double sum = k.logit_probs(logits.data(), from, n, t, restricted ? bits.data() : nullptr, static_cast<float>(top), z.data(), p.data());
      double want = 0;
      bool any = false;
      for (int64_t i = 0; i < n; i++)
        if (in(from + i)) any = true, want += std::exp(logits[from + i] / t - top);
      NEAR(sum, any ? want : -1, 1e-5);
    }
  });
}
