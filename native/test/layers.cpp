// The fused layers against plain double arithmetic, at sizes around the vector widths: a kernel that reads or writes one
// element too many is caught by AddressSanitizer.
#include "test.h"

static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 130};

TEST(rms_norm) {
  for (int64_t c : sizes) {
    const int64_t n = 3;
    const auto x = random_values(n * c, 1), w = random_values(c, 2);
    std::vector<double> want;
    for (int64_t i = 0; i < n; i++) {
      double s = 0;
      for (int64_t j = 0; j < c; j++) s += double(x[i * c + j]) * x[i * c + j];
      for (int64_t j = 0; j < c; j++) want.push_back(x[i * c + j] / std::sqrt(s / c + 1e-5) * w[j]);
    }
    Tensor tx({n, c}, x), tw({c}, w), y;
    OK(sn_rms_norm(tx, tw, 1e-5, y.out()));
    near("rms_norm", y.values(), want);
  }
  Tensor x({2, 4}, random_values(8, 1)), w({3}, {1, 1, 1});
  sn_tensor none = nullptr;
  FAILS(sn_rms_norm(x, w, 1e-5, &none), SN_ERROR, "rms_norm: x [2, 4] does not fit a weight [3]");
}

// The gradient of sum(g·y) by central differences in double would need double kernels; instead the fused backward is
// compared with the formula: dx = r·(g·w - x·r²·mean(g·w·x)), dw = Σ g·x·r.
// The same bits as adding and then normalising.
TEST(add_rms_norm) {
  sn_set_grad_enabled(0);
  for (int64_t c : {1, 7, 8, 33, 64})
    for (int64_t n : {0, 1, 5}) {
      Tensor x({n, c}, random_values(n * c, 1)), y({n, c}, random_values(n * c, 2)), w({c}, random_values(c, 3)), sum, want, got;
      OK(sn_binary(0, x, y, sum.out()));
      OK(sn_rms_norm(sum, w, 1e-5, want.out()));
      OK(sn_add_rms_norm(x, y, w, 1e-5, got.out()));
      CHECK(got.values() == want.values() && x.values() == sum.values(), "%ld of %ld", long(n), long(c));
    }
  Tensor x({2, 4}, random_values(8, 1)), w({3}, random_values(3, 2)), none;
  FAILS(sn_add_rms_norm(x, x, w, 1e-5, none.out()), SN_ERROR, "do not fit");
}

TEST(rms_norm_backward) {
  for (int64_t c : sizes) {
    const int64_t n = 70;  // more than one partial sum
    const auto x = random_values(n * c, 3), w = random_values(c, 4), g = random_values(n * c, 5);
    std::vector<double> dx, dw(c, 0);
    for (int64_t i = 0; i < n; i++) {
      double s = 0, m = 0;
      for (int64_t j = 0; j < c; j++) s += double(x[i * c + j]) * x[i * c + j];
      const double r = 1 / std::sqrt(s / c + 1e-5);
      for (int64_t j = 0; j < c; j++) m += double(g[i * c + j]) * w[j] * x[i * c + j] / c;
      for (int64_t j = 0; j < c; j++) {
        dx.push_back(r * (double(g[i * c + j]) * w[j] - x[i * c + j] * r * r * m));
        dw[j] += double(g[i * c + j]) * x[i * c + j] * r;
      }
    }
    Tensor tx({n, c}, x), tw({c}, w), tg({n, c}, g), y, gx, gw;
    sn_set_grad_enabled(1);
    OK(sn_requires_grad_(tx, 1));
    OK(sn_requires_grad_(tw, 1));
    OK(sn_rms_norm(tx, tw, 1e-5, y.out()));
    sn_tensor outs[] = {y}, gs[] = {tg}, ins[] = {tx, tw}, grads[2] = {};
    OK(sn_grad(outs, gs, 1, ins, 2, 0, grads));
    gx.h = grads[0], gw.h = grads[1];
    near("dx", gx.values(), dx, 5e-6);
    near("dw", gw.values(), dw, 5e-6);
  }
}

TEST(rope) {
  for (int64_t d : {2, 4, 6, 8, 10, 16, 18, 32, 34, 64, 66}) {
    const int64_t n = 3, h = 2, half = d / 2, table = 5;
    const auto x = random_values(n * h * d, 6), cos = random_values(table * half, 7), sin = random_values(table * half, 8);
    int64_t pos[] = {4, 0, 2}, three[] = {n};
    std::vector<double> want(n * h * d);
    for (int64_t i = 0; i < n * h; i++)
      for (int64_t j = 0; j < half; j++) {
        const double c = cos[pos[i / h] * half + j], s = sin[pos[i / h] * half + j], a = x[i * d + j], b = x[i * d + half + j];
        want[i * d + j] = a * c - b * s;
        want[i * d + half + j] = b * c + a * s;
      }
    Tensor tx({n, h, d}, x), tc({table, half}, cos), ts({table, half}, sin), tp, y;
    OK(sn_from_host(pos, sizeof pos, three, 1, SN_I64, tp.out()));
    OK(sn_rope(tx, tc, ts, tp, y.out()));
    near("rope", y.values(), want);
    pos[1] = table;  // one past the table
    Tensor bad;
    OK(sn_from_host(pos, sizeof pos, three, 1, SN_I64, bad.out()));
    sn_tensor none = nullptr;
    FAILS(sn_rope(tx, tc, ts, bad, &none), SN_INDEX, "position 5 of row 1 is outside the table of 5");
  }
}

TEST(swiglu_and_its_gradient) {
  for (int64_t f : sizes) {
    const int64_t n = 2;
    const auto x = random_values(n * 2 * f, 9), g = random_values(n * f, 10);
    std::vector<double> want, dx(n * 2 * f);
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < f; j++) {
        const double gate = x[i * 2 * f + j], up = x[i * 2 * f + f + j], s = 1 / (1 + std::exp(-gate)), d = g[i * f + j];
        want.push_back(gate * s * up);
        dx[i * 2 * f + j] = d * up * s * (1 + gate * (1 - s));
        dx[i * 2 * f + f + j] = d * gate * s;
      }
    Tensor tx({n, 2 * f}, x), tg({n, f}, g), y, gx;
    sn_set_grad_enabled(1);
    OK(sn_requires_grad_(tx, 1));
    OK(sn_swiglu(tx, y.out()));
    near("swiglu", y.values(), want);
    sn_tensor outs[] = {y}, gs[] = {tg}, ins[] = {tx};
    OK(sn_grad(outs, gs, 1, ins, 1, 0, gx.out()));
    near("swiglu backward", gx.values(), dx, 5e-6);
  }
}

TEST(adamw) {
  const int64_t c = 37;
  const auto p = random_values(c, 11), g = random_values(c, 12);
  std::vector<double> want;
  const double lr = 0.01, b1 = 0.9, b2 = 0.95, eps = 1e-8, decay = 0.1;
  for (int64_t i = 0; i < c; i++) {  // first step: the corrected moments are g and g²
    want.push_back(p[i] * (1 - lr * decay) - lr * g[i] / (std::fabs(double(g[i])) + eps));
  }
  Tensor tp({c}, p), tg({c}, g), m({c}, std::vector<float>(c)), v({c}, std::vector<float>(c)), small({3}, {0, 0, 0});
  sn_tensor ps[] = {tp}, gs[] = {tg}, ms[] = {m}, vs[] = {v}, bad[] = {small};
  OK(sn_adamw_(ps, gs, ms, vs, 1, 1, lr, b1, b2, eps, decay));
  near("adamw", tp.values(), want);
  FAILS(sn_adamw_(ps, bad, ms, vs, 1, 2, lr, b1, b2, eps, decay), SN_ERROR, "gradient 0");
}
