// Causal attention of packed sequences: training and full forwards. Differentiable.
#include <torch/csrc/autograd/custom_function.h>

#include "functions.h"
#include "kernels/kernels.h"

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

namespace sead {

// Units of work that are worth a thread: a head of a sequence of average length takes length²·d multiply-adds, and 16 of
// them count as one element of an elementwise kernel.
static int64_t unit_grain(int64_t tokens, int64_t nseq, int64_t d) {
  const int64_t length = tokens / nseq + 1;
  return grain(length * length * d / 16);
}

// One head of sequence [from, to).
static PackedHead head_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse,
                          int64_t from, int64_t to, int64_t head, double scale) {
  const int64_t d = q.size(2), kv = head / (q.size(1) / k.size(1));
  return {to - from,
          d,
          static_cast<float>(scale),
          q.const_data_ptr<float>() + from * q.stride(0) + head * d,
          k.const_data_ptr<float>() + from * k.stride(0) + kv * d,
          v.const_data_ptr<float>() + from * v.stride(0) + kv * d,
          q.stride(0),
          k.stride(0),
          v.stride(0),
          out.mutable_data_ptr<float>() + from * out.stride(0) + head * d,
          lse.mutable_data_ptr<float>() + head * q.size(0) + from,
          out.stride(0)};
}

struct Packed : Function<Packed> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q_, const at::Tensor& k_, const at::Tensor& v_, at::IntArrayRef cu,
                            double scale) {
    const auto q = rows_dense(q_), k = rows_dense(k_), v = rows_dense(v_);
    const int64_t h = q.size(1), d = q.size(2), nseq = static_cast<int64_t>(cu.size()) - 1;
    auto out = at::empty({q.size(0), h, d}, q.options()), lse = at::empty({h, q.size(0)}, q.options());
    share(nseq * h, unit_grain(q.size(0), nseq, d), [&](const auto& next) {
      std::vector<float> work;
      for (int64_t i; (i = next()) < nseq * h;) {
        const int64_t from = cu[i / h], to = cu[i / h + 1];
        if (from == to) continue;
        work.resize(std::max<size_t>(work.size(), kernels().packed_work(to - from, d)));
        kernels().packed_forward(head_of(q, k, v, out, lse, from, to, i % h, scale), work.data());
      }
    });
    ctx->save_for_backward({q, k, v, out, lse});
    ctx->saved_data["cu"] = cu.vec();
    ctx->saved_data["scale"] = scale;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto s = ctx->get_saved_variables();
    const auto &q = s[0], &k = s[1], &v = s[2], &out = s[3], &lse = s[4];
    const auto dout = rows_dense(grads[0]);
    const auto cu = ctx->saved_data["cu"].toIntVector();
    const double scale = ctx->saved_data["scale"].toDouble();
    const int64_t h = q.size(1), kv = k.size(1), d = q.size(2), group = h / kv, nseq = static_cast<int64_t>(cu.size()) - 1;
    auto dq = at::empty({q.size(0), h, d}, q.options()), dk = at::zeros({q.size(0), kv, d}, q.options()), dv = at::zeros_like(dk);
    // The query heads that share a key head add to the same gradients: one after another.
    share(nseq * kv, unit_grain(q.size(0), nseq, d), [&](const auto& next) {
      std::vector<float> work;
      for (int64_t i; (i = next()) < nseq * kv;) {
        const int64_t from = cu[i / kv], to = cu[i / kv + 1];
        if (from == to) continue;
        work.resize(std::max<size_t>(work.size(), kernels().packed_work(to - from, d)));
        for (int64_t head = i % kv * group; head < (i % kv + 1) * group; head++) {
          const PackedGrad g{dout.const_data_ptr<float>() + from * dout.stride(0) + head * d,
                             dq.mutable_data_ptr<float>() + from * h * d + head * d,
                             dk.mutable_data_ptr<float>() + from * kv * d + i % kv * d,
                             dv.mutable_data_ptr<float>() + from * kv * d + i % kv * d,
                             dout.stride(0),
                             h * d,
                             kv * d};
          kernels().packed_backward(head_of(q, k, v, out, lse, from, to, head, scale), g, work.data());
        }
      }
    });
    return {dq, dk, dv, at::Tensor(), at::Tensor()};
  }
};

// Where the fused kernel does not reach (other devices, types and head sizes): sequence by sequence through ATen, which is
// differentiable. [n, h, d] -> [1, h, L, d] is a view.
static at::Tensor packed_plain(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::vector<int64_t>& lengths, double scale) {
  const bool gqa = q.size(1) != k.size(1);
  // Split, not narrow: the gradient of one split is one cat, that of every narrow a tensor of the whole length.
  const auto qs = q.split_with_sizes(lengths, 0), ks = k.split_with_sizes(lengths, 0), vs = v.split_with_sizes(lengths, 0);
  const auto batched = [](const at::Tensor& t) { return t.transpose(0, 1).unsqueeze(0); };
  std::vector<at::Tensor> outs;
  outs.reserve(lengths.size());
  for (size_t i = 0; i < lengths.size(); i++) {
    auto o = at::scaled_dot_product_attention(batched(qs[i]), batched(ks[i]), batched(vs[i]), std::nullopt, 0.0, /*is_causal=*/true, scale, gqa);
    outs.push_back(o.squeeze(0).transpose(0, 1));
  }
  return outs.size() == 1 ? outs[0].contiguous() : at::cat(outs, 0);
}

static at::Tensor packed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const int64_t* cu, int nseq,
                                   double scale) {
  TORCH_CHECK(q.dim() == 3 && k.dim() == 3 && v.dim() == 3 && k.size(0) == q.size(0) && v.size(0) == q.size(0) && k.size(1) == v.size(1) &&
                  k.size(2) == q.size(2) && v.size(2) == q.size(2),
              "packed_attention: q ", q.sizes(), ", k ", k.sizes(), " and v ", v.sizes(), " must be [n, heads, d] of one n and d");
  TORCH_CHECK(k.size(1) > 0 && q.size(1) % k.size(1) == 0, "packed_attention: ", q.size(1), " query heads for ", k.size(1), " key heads");
  TORCH_CHECK(nseq > 0 && cu[0] == 0 && cu[nseq] == q.size(0), "packed_attention: offsets must run from 0 to ", q.size(0), ", not from ",
              nseq > 0 ? cu[0] : 0, " to ", nseq > 0 ? cu[nseq] : 0);
  std::vector<int64_t> lengths;
  for (int i = 0; i < nseq; i++) {
    TORCH_CHECK(cu[i] <= cu[i + 1], "packed_attention: offset ", i + 1, " goes back from ", cu[i], " to ", cu[i + 1]);
    if (cu[i] < cu[i + 1]) lengths.push_back(cu[i + 1] - cu[i]);
  }
  if (lengths.empty()) return at::zeros_like(q);
  if (q.is_meta()) return only_shape(q.sizes().vec(), {q, k, v});
  if (fused(q) && fused(k) && fused(v) && q.size(2) % kernels().width == 0 && scale > 0)
    return Packed::apply(q, k, v, at::IntArrayRef(cu, nseq + 1), scale);
  return packed_plain(q, k, v, lengths, scale);
}

}  // namespace sead

using namespace sead;

extern "C" sn_status sn_packed_attention(sn_tensor q, sn_tensor k, sn_tensor v, const int64_t* cu, int nseq, double scale, sn_tensor* out) {
  GUARD(*out = give(packed_attention(T(q), T(k), T(v), cu, nseq, scale)))
}
