// Linear layers. In fp32 on the CPU every row is computed by itself by a kernel of ours, so that generation and training
// agree whatever they batch. Generation reads weights that were packed into panels before. The gradients, and everything
// elsewhere, are ATen's.
#include <torch/csrc/autograd/custom_function.h>

#include "functions.h"
#include "kernels/kernels.h"

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

namespace sead {

// w [n, k] as it lies, or panels [⌈n/kPanel⌉, k, kPanel]; scale: of int8 weights, one for each output.
static at::Tensor run(Linear::Type type, const at::Tensor& x_, const at::Tensor& w_, int64_t n, const at::Tensor& scale_, const at::Tensor& bias_) {
  const auto dense = [](const at::Tensor& t) { return t.defined() ? t.contiguous() : t; };
  const auto data = [](const at::Tensor& t) { return t.defined() ? t.const_data_ptr<float>() : nullptr; };
  const auto x = dense(x_), w = dense(w_), scale = dense(scale_), bias = dense(bias_);
  const int64_t k = x.size(1);
  if (k == 0) return bias.defined() ? bias.expand({x.size(0), n}).clone() : at::zeros({x.size(0), n}, x.options());
  auto y = at::empty({x.size(0), n}, x.options());
  const Linear l{type, data(x), w.const_data_ptr(), data(scale), data(bias), y.mutable_data_ptr<float>(), x.size(0), n, k};
  constexpr int64_t kUnit = 2;  // panels
  const int64_t panels = (n + kPanel - 1) / kPanel, units = (panels + kUnit - 1) / kUnit;
  if (l.rows > 0)
    share(units, grain(kUnit * kPanel * k * l.rows), [&](const auto& next) {
      for (int64_t u; (u = next()) < units;) kernels().linear(l, u * kUnit, std::min(panels, (u + 1) * kUnit));
    });
  return y;
}

struct LinearRows : Function<LinearRows> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& w, const std::optional<at::Tensor>& bias) {
    ctx->save_for_backward({x, w});
    ctx->saved_data["bias"] = bias.has_value();
    return run(Linear::plain, x, w, w.size(0), {}, bias.value_or(at::Tensor()));
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& g) {
    const auto s = ctx->get_saved_variables();
    const auto dy = g[0].contiguous();
    at::Tensor dx, dw, db;
    if (ctx->needs_input_grad(0)) dx = dy.mm(s[1]);
    if (ctx->needs_input_grad(1)) dw = dy.t().mm(s[0]);
    if (ctx->saved_data["bias"].toBool() && ctx->needs_input_grad(2)) db = dy.sum(0);
    return {dx, dw, db};
  }
};

static at::Tensor linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias) {
  const bool fits = x.dim() == 2 && w.dim() == 2 && x.size(1) == w.size(1) && (!bias.defined() || (bias.dim() == 1 && bias.size(0) == w.size(0)));
  if (!fits || !fused(x) || !fused(w) || (bias.defined() && !fused(bias))) return at::linear(x, w, bias);
  if (recorded(x, w, bias)) return LinearRows::apply(x, w, bias.defined() ? std::optional(bias) : std::nullopt);
  return run(Linear::plain, x, w, w.size(0), {}, bias);
}

static at::Tensor pack_rows(const at::Tensor& w) {
  TORCH_CHECK(w.dim() == 2, "pack_rows: weights ", w.sizes(), ": a matrix is needed");
  const int64_t panels = (w.size(0) + kPanel - 1) / kPanel;
  return at::constant_pad_nd(w, {0, 0, 0, panels * kPanel - w.size(0)}).view({panels, kPanel, w.size(1)}).transpose(1, 2).contiguous();
}

static at::Tensor linear_packed(const at::Tensor& x, const at::Tensor& w, int64_t n, const at::Tensor& scale, const at::Tensor& bias) {
  const bool i8 = w.scalar_type() == at::kChar;
  TORCH_CHECK(n >= 0 && x.dim() == 2 && w.dim() == 3 && w.size(2) == kPanel && w.size(0) == (n + kPanel - 1) / kPanel && x.size(1) == w.size(1),
              "linear_packed: x ", x.sizes(), " and panels ", w.sizes(), " do not fit ", n, " outputs");
  TORCH_CHECK(scale.defined() == i8 && (!i8 || scale.sizes() == at::IntArrayRef(n)), "linear_packed: scale ",
              scale.defined() ? scale.sizes() : at::IntArrayRef(), ": int8 weights need one for each of ", n, " outputs, others none");
  TORCH_CHECK(!bias.defined() || bias.sizes() == at::IntArrayRef(n), "linear_packed: bias ", bias.defined() ? bias.sizes() : at::IntArrayRef(), " for ",
              n, " outputs");
  TORCH_CHECK_TYPE(i8 || w.scalar_type() == at::kFloat || w.scalar_type() == at::kBFloat16, "linear_packed: weights are ", w.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(!recorded(x, w, bias), "linear_packed has no gradient");
  if (x.is_meta()) return only_shape({x.size(0), n}, {x});
  TORCH_CHECK_NOT_IMPLEMENTED(fused(x) && w.is_cpu() && (!i8 || fused(scale)) && (!bias.defined() || fused(bias)), "linear_packed: x is ",
                              x.scalar_type(), " on ", x.device(), ": fp32 on the CPU only");
  return run(i8 ? Linear::i8 : w.scalar_type() == at::kFloat ? Linear::f32 : Linear::bf16, x, w, n, scale, bias);
}

static std::pair<at::Tensor, at::Tensor> quantize_rows(const at::Tensor& w) {
  TORCH_CHECK(w.dim() == 2 && w.size(1) > 0, "quantize_rows: weights ", w.sizes(), ": a matrix with columns is needed");
  const int64_t n = w.size(0), k = w.size(1), rows = std::max<int64_t>(1, (1 << 20) / k);  // at a time: temporary memory is small
  const auto q = at::empty({n, k}, w.options().dtype(at::kChar)), scale = at::empty({n}, w.options().dtype(at::kFloat));
  for (int64_t from = 0; from < n && !w.is_meta(); from += rows) {
    const int64_t m = std::min(rows, n - from);
    const auto part = w.narrow(0, from, m).to(at::kFloat), s = part.abs().amax(1) / 127;
    scale.narrow(0, from, m).copy_(s);
    q.narrow(0, from, m).copy_((part / s.masked_fill(s == 0, 1).unsqueeze(1)).round_());
  }
  return {q, scale};
}

}  // namespace sead

using namespace sead;

extern "C" sn_status sn_linear(sn_tensor x, sn_tensor w, sn_tensor bias, sn_tensor* out) {
  GUARD(*out = give(linear(T(x), T(w), maybe(bias))))
}
extern "C" sn_status sn_pack_rows(sn_tensor w, sn_tensor* out) { GUARD(*out = give(pack_rows(T(w).detach()))) }
extern "C" sn_status sn_linear_packed(sn_tensor x, sn_tensor w, int64_t n, sn_tensor scale, sn_tensor bias, sn_tensor* out) {
  GUARD(*out = give(linear_packed(T(x), T(w), n, maybe(scale), maybe(bias))))
}
extern "C" sn_status sn_quantize_rows(sn_tensor w, sn_tensor* q, sn_tensor* scale) {
  GUARD({
    const auto [a, b] = quantize_rows(T(w).detach());
    *q = give(a);
    *scale = give(b);
  })
}
