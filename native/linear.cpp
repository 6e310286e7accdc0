// Linear layers. In fp32 on the CPU every row is computed by itself by a kernel of ours, so that generation and training
// agree whatever they batch: ahead of MKL up to some hundred rows (twice at 16), which packs its operands first, and a tenth
// behind at most. The gradients, and everything elsewhere, are ATen's.
#include <torch/csrc/autograd/custom_function.h>

#include "functions.h"
#include "kernels/kernels.h"

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

namespace sead {

static Linear::Type type_of(const at::Tensor& w) {
  return w.scalar_type() == at::kFloat ? Linear::f32 : w.scalar_type() == at::kChar ? Linear::i8 : Linear::bf16;
}

// scale: of int8 weights, one for each of their rows.
static at::Tensor run(const at::Tensor& x_, const at::Tensor& w_, const at::Tensor& scale_, const at::Tensor& bias_) {
  const auto x = x_.contiguous(), w = w_.contiguous(), bias = bias_.defined() ? bias_.contiguous() : bias_,
             scale = scale_.defined() ? scale_.contiguous() : scale_;
  const int64_t k = x.size(1), n = w.size(0), bytes = k * static_cast<int64_t>(w.element_size());
  auto y = at::empty({x.size(0), n}, x.options());
  const Linear l{type_of(w),
                 x.const_data_ptr<float>(),
                 w.const_data_ptr(),
                 scale.defined() ? scale.const_data_ptr<float>() : nullptr,
                 bias.defined() ? bias.const_data_ptr<float>() : nullptr,
                 y.mutable_data_ptr<float>(),
                 x.size(0),
                 n,
                 k};
  // The weights of a unit stay in the L2 cache while all rows pass.
  const int64_t span = std::max<int64_t>(4, std::min<int64_t>(48, 131072 / std::max<int64_t>(bytes, 1) / 4 * 4));
  const int64_t across = (n + span - 1) / span;
  share(across, grain(span * k * x.size(0)), [&](const auto& next) {
    for (int64_t u; (u = next()) < across;) kernels().linear(l, u * span, std::min(n, (u + 1) * span));
  });
  return y;
}

struct LinearRows : Function<LinearRows> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& w, const std::optional<at::Tensor>& bias) {
    ctx->save_for_backward({x, w});
    ctx->saved_data["bias"] = bias.has_value();
    return run(x, w, {}, bias.value_or(at::Tensor()));
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
  if (!fits || !fused(x) || !w.is_cpu() || (bias.defined() && !fused(bias))) return at::linear(x, w, bias);
  const bool graph = recorded(x, w, bias);
  if (graph && fused(w)) return LinearRows::apply(x, w, bias.defined() ? std::optional(bias) : std::nullopt);
  if (!graph && (fused(w) || w.scalar_type() == at::kBFloat16)) return run(x, w, {}, bias);
  return at::linear(x, w, bias);
}

static at::Tensor linear_i8(const at::Tensor& x, const at::Tensor& w, const at::Tensor& scale, const at::Tensor& bias) {
  TORCH_CHECK(x.dim() == 2 && w.dim() == 2 && x.size(1) == w.size(1), "linear_i8: x ", x.sizes(), " and weights ", w.sizes(), " do not fit");
  TORCH_CHECK(scale.sizes() == at::IntArrayRef(w.size(0)), "linear_i8: scale ", scale.sizes(), ": one for each of ", w.size(0), " outputs is needed");
  TORCH_CHECK(!bias.defined() || bias.sizes() == scale.sizes(), "linear_i8: bias ", bias.defined() ? bias.sizes() : at::IntArrayRef(), " for ",
              w.size(0), " outputs");
  TORCH_CHECK_TYPE(w.scalar_type() == at::kChar, "linear_i8: weights are ", w.scalar_type(), ", not int8");
  TORCH_CHECK_NOT_IMPLEMENTED(!recorded(x), "linear_i8 has no gradient");
  if (fused(x) && w.is_cpu() && fused(scale) && (!bias.defined() || fused(bias))) return run(x, w, scale, bias);
  const auto y = at::linear(x, w.to(x.scalar_type())) * scale;
  return (bias.defined() ? y + bias : y).to(x.scalar_type());
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
  GUARD(*out = give(linear(T(x), T(w), bias ? T(bias) : at::Tensor())))
}
extern "C" sn_status sn_linear_i8(sn_tensor x, sn_tensor w, sn_tensor scale, sn_tensor bias, sn_tensor* out) {
  GUARD(*out = give(linear_i8(T(x), T(w), T(scale), bias ? T(bias) : at::Tensor())))
}
extern "C" sn_status sn_quantize_rows(sn_tensor w, sn_tensor* q, sn_tensor* scale) {
  GUARD({
    const auto [a, b] = quantize_rows(T(w).detach());
    *q = give(a);
    *scale = give(b);
  })
}
