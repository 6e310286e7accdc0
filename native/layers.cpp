// RMSNorm, rotary embedding and SwiGLU as differentiable functions over the fused kernels. Where a tensor is not fp32 on
// the CPU (CUDA, bf16, meta), plain ATen stands in: the same formula, differentiated by libtorch.
#include <torch/csrc/autograd/custom_function.h>

#include "functions.h"
#include "kernels/kernels.h"

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

namespace sead {

static std::pair<at::Tensor, at::Tensor> rms_norm_run(const at::Tensor& x, const at::Tensor& w, double eps) {
  const int64_t c = x.size(-1), rows = x.numel() / c;
  auto y = at::empty_like(x), rstd = at::empty({rows}, x.options());
  const auto *px = x.const_data_ptr<float>(), *pw = w.const_data_ptr<float>();
  auto *py = y.mutable_data_ptr<float>(), *ps = rstd.mutable_data_ptr<float>();
  at::parallel_for(0, rows, grain(c), [&](int64_t a, int64_t b) {
    kernels().rms_norm(px + a * c, pw, py + a * c, ps + a, b - a, c, static_cast<float>(eps));
  });
  return {y, rstd};
}

struct RmsNorm : Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& w, double eps) {
    auto [y, rstd] = rms_norm_run(x, w, eps);
    ctx->save_for_backward({x, w, rstd});
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list g) {
    const auto s = ctx->get_saved_variables();
    const auto &x = s[0], &w = s[1], &rstd = s[2];
    const auto dy = g[0].contiguous();
    const int64_t c = x.size(-1), rows = x.numel() / c;
    auto dx = at::empty_like(x);
    // A fixed number of partial sums, whatever the number of threads: the result does not depend on it.
    const int64_t parts = std::min<int64_t>(16, std::max<int64_t>(1, rows / 64)), span = (rows + parts - 1) / parts;
    auto dw = at::zeros({parts, c}, x.options());
    const auto *pdy = dy.const_data_ptr<float>(), *px = x.const_data_ptr<float>(), *pw = w.const_data_ptr<float>(),
               *ps = rstd.const_data_ptr<float>();
    auto *pdx = dx.mutable_data_ptr<float>(), *pdw = dw.mutable_data_ptr<float>();
    at::parallel_for(0, parts, 1, [&](int64_t from, int64_t to) {
      for (int64_t p = from; p < to; p++) {
        const int64_t a = p * span, b = std::min(rows, a + span);
        if (a < b) kernels().rms_norm_backward(pdy + a * c, px + a * c, pw, ps + a, pdx + a * c, pdw + p * c, b - a, c);
      }
    });
    return {dx, dw.sum(0), at::Tensor()};
  }
};

static at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& w, double eps) {
  TORCH_CHECK(x.dim() > 0 && w.dim() == 1 && w.size(0) > 0 && x.size(-1) == w.size(0), "rms_norm: x ", x.sizes(),
              " does not fit a weight ", w.sizes());
  if (fused(x) && fused(w)) {
    const auto xc = x.contiguous(), wc = w.contiguous();
    return recorded(x, w) ? RmsNorm::apply(xc, wc, eps) : rms_norm_run(xc, wc, eps).first;
  }
  const auto f = x.to(at::kFloat);
  return (f * (f.square().mean(-1, true) + eps).rsqrt()).to(x.scalar_type()) * w;
}

static at::Tensor add_rms_norm(const at::Tensor& x, const at::Tensor& y, const at::Tensor& w, double eps) {
  TORCH_CHECK(x.dim() == 2 && y.sizes() == x.sizes() && w.dim() == 1 && w.size(0) > 0 && x.size(1) == w.size(0), "add_rms_norm: x ", x.sizes(),
              ", y ", y.sizes(), " and a weight ", w.sizes(), " do not fit");
  TORCH_CHECK_NOT_IMPLEMENTED(!recorded(x, y, w), "add_rms_norm has no gradient");
  if (!fused(x) || !fused(y) || !fused(w) || !x.is_contiguous()) return rms_norm(x.add_(y), w, eps);
  const auto yc = y.contiguous(), wc = w.contiguous();
  const auto out = at::empty_like(x);
  const int64_t c = x.size(1);
  auto *px = x.mutable_data_ptr<float>(), *po = out.mutable_data_ptr<float>();
  const auto *py = yc.const_data_ptr<float>(), *pw = wc.const_data_ptr<float>();
  at::parallel_for(0, x.size(0), grain(c), [&](int64_t a, int64_t b) {
    kernels().add_rms_norm(px + a * c, py + a * c, pw, po + a * c, b - a, c, static_cast<float>(eps));
  });
  return out;
}

static at::Tensor rope_run(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& pos, float sign) {
  const int64_t n = x.size(0), h = x.size(1), d = x.size(2);
  const auto xs = rows_dense(x);
  auto y = at::empty({n, h, d}, x.options());
  const auto *px = xs.const_data_ptr<float>(), *pc = cos.const_data_ptr<float>(), *ps = sin.const_data_ptr<float>();
  const auto* pp = pos.const_data_ptr<int64_t>();
  auto* py = y.mutable_data_ptr<float>();
  const int64_t stride = xs.stride(0);
  at::parallel_for(0, n, grain(h * d), [&](int64_t a, int64_t b) {
    kernels().rope(px + a * stride, stride, pc, ps, pp + a, py + a * h * d, b - a, h, d, sign);
  });
  return y;
}

struct Rope : Function<Rope> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                            const at::Tensor& pos) {
    ctx->save_for_backward({cos, sin, pos});
    return rope_run(x, cos, sin, pos, 1.0f);
  }
  static variable_list backward(AutogradContext* ctx, variable_list g) {
    const auto s = ctx->get_saved_variables();
    return {rope_run(g[0], s[0], s[1], s[2], -1.0f), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

at::Tensor rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& pos) {
  TORCH_CHECK(x.dim() == 3 && cos.dim() == 2 && sin.sizes() == cos.sizes() && x.size(2) == 2 * cos.size(1), "rope: x ", x.sizes(),
              " does not fit tables ", cos.sizes(), " and ", sin.sizes());
  TORCH_CHECK(pos.dim() == 1 && pos.size(0) == x.size(0) && pos.scalar_type() == at::kLong, "rope: positions ", pos.scalar_type(), " ",
              pos.sizes(), " for ", x.size(0), " rows: one int64 each is needed");
  if (fused(x) && fused(cos) && fused(sin) && pos.is_cpu()) {
    const auto p = pos.contiguous();
    const auto* at = p.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < p.size(0); i++)  // a read past the table would be silent
      TORCH_CHECK_INDEX(at[i] >= 0 && at[i] < cos.size(0), "rope: position ", at[i], " of row ", i, " is outside the table of ", cos.size(0));
    const auto c = cos.contiguous(), s = sin.contiguous();
    return recorded(x) ? Rope::apply(x, c, s, p) : rope_run(x, c, s, p, 1.0f);
  }
  if (x.is_meta()) return only_shape(x.sizes().vec(), {x});
  const auto c = cos.index_select(0, pos).unsqueeze(1), s = sin.index_select(0, pos).unsqueeze(1);
  const auto halves = x.to(at::kFloat).chunk(2, -1);
  return at::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1).to(x.scalar_type());
}

static at::Tensor swiglu_run(const at::Tensor& gu) {
  const int64_t f = gu.size(1) / 2, rows = gu.size(0);
  auto y = at::empty({rows, f}, gu.options());
  const auto* px = gu.const_data_ptr<float>();
  auto* py = y.mutable_data_ptr<float>();
  at::parallel_for(0, rows, grain(4 * f), [&](int64_t a, int64_t b) { kernels().swiglu(px + a * 2 * f, py + a * f, b - a, f); });
  return y;
}

struct Swiglu : Function<Swiglu> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gu) {
    ctx->save_for_backward({gu});
    return swiglu_run(gu);
  }
  static variable_list backward(AutogradContext* ctx, variable_list g) {
    const auto gu = ctx->get_saved_variables()[0];
    const auto dy = g[0].contiguous();
    const int64_t f = gu.size(1) / 2, rows = gu.size(0);
    auto dgu = at::empty_like(gu);
    const auto *pd = dy.const_data_ptr<float>(), *px = gu.const_data_ptr<float>();
    auto* po = dgu.mutable_data_ptr<float>();
    at::parallel_for(0, rows, grain(4 * f), [&](int64_t a, int64_t b) {
      kernels().swiglu_backward(pd + a * f, px + a * 2 * f, po + a * 2 * f, b - a, f);
    });
    return {dgu};
  }
};

static at::Tensor swiglu(const at::Tensor& gu) {
  TORCH_CHECK(gu.dim() == 2 && gu.size(1) % 2 == 0, "swiglu: gate_up ", gu.sizes(), " must be [n, 2f]");
  if (fused(gu)) {
    const auto c = gu.contiguous();
    return recorded(gu) ? Swiglu::apply(c) : swiglu_run(c);
  }
  const auto halves = gu.chunk(2, -1);
  return at::silu(halves[0]) * halves[1];
}

}  // namespace sead

using namespace sead;

extern "C" {

sn_status sn_rms_norm(sn_tensor x, sn_tensor w, double eps, sn_tensor* out) { GUARD(*out = give(rms_norm(T(x), T(w), eps))) }
sn_status sn_add_rms_norm(sn_tensor x, sn_tensor y, sn_tensor w, double eps, sn_tensor* out) {
  GUARD(*out = give(add_rms_norm(T(x), T(y), T(w), eps)))
}
sn_status sn_rope(sn_tensor x, sn_tensor cos, sn_tensor sin, sn_tensor pos, sn_tensor* out) {
  GUARD(*out = give(rope(T(x), T(cos), T(sin), T(pos))))
}
sn_status sn_swiglu(sn_tensor gate_up, sn_tensor* out) { GUARD(*out = give(swiglu(T(gate_up)))) }

}  // extern "C"
