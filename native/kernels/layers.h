// RMSNorm (Zhang & Sennrich 2019), rotary embedding (Su et al. 2021), SwiGLU (Shazeer 2020): forward and backward.
#pragma once
#include "simd.h"

namespace sead::SEAD_ISA {

inline float dot(const float* a, const float* b, int64_t n) {
  vf s0{}, s1{};
  int64_t i = 0;
  for (; i + 2 * W <= n; i += 2 * W) {
    s0 += load(a + i) * load(b + i);
    s1 += load(a + i + W) * load(b + i + W);
  }
  float s = sum(s0 + s1);
  for (; i < n; i++) s += a[i] * b[i];
  return s;
}

void rms_norm(const float* x, const float* w, float* y, float* rstd, int64_t rows, int64_t c, float eps) {
  for (int64_t r = 0; r < rows; r++, x += c, y += c) {
    const float s = 1.0f / std::sqrt(dot(x, x, c) / static_cast<float>(c) + eps);
    rstd[r] = s;
    int64_t i = 0;
    for (; i + W <= c; i += W) store(y + i, load(x + i) * s * load(w + i));
    for (; i < c; i++) y[i] = x[i] * s * w[i];
  }
}

void add_rms_norm(float* x, const float* y, const float* w, float* out, int64_t rows, int64_t c, float eps) {
  for (int64_t r = 0; r < rows; r++, x += c, y += c, out += c) {
    int64_t i = 0;
    for (; i + W <= c; i += W) store(x + i, load(x + i) + load(y + i));
    for (; i < c; i++) x[i] += y[i];
    float rstd;
    rms_norm(x, w, out, &rstd, 1, c, eps);
  }
}

// With n = x·s, s = rstd: dx = s·(g − n·mean(g·n)), g = dy·w; dw = Σ dy·n.
void rms_norm_backward(const float* dy, const float* x, const float* w, const float* rstd, float* dx, float* dw,
                       int64_t rows, int64_t c) {
  for (int64_t r = 0; r < rows; r++, x += c, dy += c, dx += c) {
    const float s = rstd[r];
    vf acc{};
    int64_t i = 0;
    for (; i + W <= c; i += W) acc += load(dy + i) * load(w + i) * load(x + i);
    float m = sum(acc);
    for (; i < c; i++) m += dy[i] * w[i] * x[i];
    m = m * s * s / static_cast<float>(c);
    for (i = 0; i + W <= c; i += W) {
      const vf g = load(dy + i), xi = load(x + i);
      store(dx + i, (g * load(w + i) - xi * m) * s);
      store(dw + i, load(dw + i) + g * xi * s);
    }
    for (; i < c; i++) {
      dx[i] = (dy[i] * w[i] - x[i] * m) * s;
      dw[i] += dy[i] * x[i] * s;
    }
  }
}

void rope(const float* x, int64_t x_stride, const float* cos, const float* sin, const int64_t* pos, float* y,
          int64_t rows, int64_t h, int64_t d, float sign) {
  const int64_t half = d / 2;
  for (int64_t r = 0; r < rows; r++) {
    const float* c = cos + pos[r] * half;
    const float* s = sin + pos[r] * half;
    const float* xr = x + r * x_stride;
    float* yr = y + r * h * d;
    for (int64_t k = 0; k < h; k++, xr += d, yr += d) {
      int64_t i = 0;
      for (; i + W <= half; i += W) {
        const vf a = load(xr + i), b = load(xr + half + i), ci = load(c + i), si = load(s + i) * sign;
        store(yr + i, a * ci - b * si);
        store(yr + half + i, b * ci + a * si);
      }
      for (; i < half; i++) {
        const float a = xr[i], b = xr[half + i], si = s[i] * sign;
        yr[i] = a * c[i] - b * si;
        yr[half + i] = b * c[i] + a * si;
      }
    }
  }
}

void swiglu(const float* gu, float* y, int64_t rows, int64_t f) {
  for (int64_t r = 0; r < rows; r++, gu += 2 * f, y += f) {
    int64_t i = 0;
    for (; i + W <= f; i += W) {
      const vf g = load(gu + i);
      store(y + i, g / (splat(1.0f) + exp(-g)) * load(gu + f + i));
    }
    for (; i < f; i++) y[i] = gu[i] / (1.0f + exp(-gu[i])) * gu[f + i];
  }
}

// With σ = sigmoid(g): d silu/dg = σ·(1 + g·(1 − σ)).
void swiglu_backward(const float* dy, const float* gu, float* dgu, int64_t rows, int64_t f) {
  const auto one = [](auto g, auto u, auto d, auto& dg, auto& du, auto unit) {
    const auto s = unit / (unit + exp(-g));
    dg = d * u * s * (unit + g * (unit - s));
    du = d * g * s;
  };
  for (int64_t r = 0; r < rows; r++, gu += 2 * f, dgu += 2 * f, dy += f) {
    int64_t i = 0;
    for (; i + W <= f; i += W) {
      vf dg, du;
      one(load(gu + i), load(gu + f + i), load(dy + i), dg, du, splat(1.0f));
      store(dgu + i, dg);
      store(dgu + f + i, du);
    }
    for (; i < f; i++) one(gu[i], gu[f + i], dy[i], dgu[i], dgu[f + i], 1.0f);
  }
}

}  // namespace sead::SEAD_ISA
