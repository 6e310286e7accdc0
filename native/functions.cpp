// The fused kernels as differentiable functions and as cache operations. Where a tensor is not fp32 on the CPU (CUDA,
// bf16, meta), plain ATen stands in: the same formula, differentiated by libtorch.
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "guard.h"
#include "kernels/kernels.h"

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

namespace sead {

static bool fused(const at::Tensor& t) { return t.is_cpu() && t.scalar_type() == at::kFloat; }

// About 32k elements keep a thread busy for longer than waking it takes.
static int64_t grain(int64_t per_row) { return std::max<int64_t>(1, 32768 / std::max<int64_t>(1, per_row)); }

struct RmsNorm : Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_, const at::Tensor& w, double eps) {
    const auto x = x_.contiguous();
    const int64_t c = x.size(-1), rows = x.numel() / c;
    auto y = at::empty_like(x);
    auto rstd = at::empty({rows}, x.options());
    const auto *px = x.const_data_ptr<float>(), *pw = w.const_data_ptr<float>();
    auto *py = y.data_ptr<float>(), *ps = rstd.data_ptr<float>();
    at::parallel_for(0, rows, grain(c), [&](int64_t a, int64_t b) {
      kernels().rms_norm(px + a * c, pw, py + a * c, ps + a, b - a, c, static_cast<float>(eps));
    });
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
    auto *pdx = dx.data_ptr<float>(), *pdw = dw.data_ptr<float>();
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
  if (fused(x)) return RmsNorm::apply(x, w, eps);
  const auto f = x.to(at::kFloat);
  return (f * (f.square().mean(-1, true) + eps).rsqrt()).to(x.scalar_type()) * w;
}

static at::Tensor rope_run(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& pos, float sign) {
  const int64_t n = x.size(0), h = x.size(1), d = x.size(2);
  auto xs = x;
  if (x.stride(2) != 1 || x.stride(1) != d) xs = x.contiguous();
  auto y = at::empty({n, h, d}, x.options());
  const auto *px = xs.const_data_ptr<float>(), *pc = cos.const_data_ptr<float>(), *psn = sin.const_data_ptr<float>();
  const auto* pp = pos.const_data_ptr<int64_t>();
  auto* py = y.data_ptr<float>();
  const int64_t stride = xs.stride(0);
  at::parallel_for(0, n, grain(h * d), [&](int64_t a, int64_t b) {
    kernels().rope(px + a * stride, stride, pc, psn, pp + a, py + a * h * d, b - a, h, d, sign);
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

static at::Tensor rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& pos) {
  TORCH_CHECK(x.dim() == 3 && x.size(2) == 2 * cos.size(-1), "rope: x ", x.sizes(), " does not fit a table ", cos.sizes());
  if (fused(x)) {
    if (x.size(0) > 0) {  // a read past the table would be silent
      const auto last = pos.max().item<int64_t>();
      TORCH_CHECK(last < cos.size(0) && pos.min().item<int64_t>() >= 0, "rope: position ", last, " is outside the table of ", cos.size(0));
    }
    return Rope::apply(x, cos, sin, pos);
  }
  const auto c = cos.index_select(0, pos).unsqueeze(1), s = sin.index_select(0, pos).unsqueeze(1);
  const auto halves = x.to(at::kFloat).chunk(2, -1);
  return at::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1).to(x.scalar_type());
}

struct Swiglu : Function<Swiglu> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gu_) {
    const auto gu = gu_.contiguous();
    const int64_t f = gu.size(-1) / 2, rows = gu.numel() / (2 * f);
    auto y = at::empty({rows, f}, gu.options());
    const auto* px = gu.const_data_ptr<float>();
    auto* py = y.data_ptr<float>();
    at::parallel_for(0, rows, grain(4 * f), [&](int64_t a, int64_t b) {
      kernels().swiglu(px + a * 2 * f, py + a * f, b - a, f);
    });
    ctx->save_for_backward({gu});
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list g) {
    const auto gu = ctx->get_saved_variables()[0];
    const auto dy = g[0].contiguous();
    const int64_t f = gu.size(-1) / 2, rows = gu.numel() / (2 * f);
    auto dgu = at::empty_like(gu);
    const auto *pd = dy.const_data_ptr<float>(), *px = gu.const_data_ptr<float>();
    auto* po = dgu.data_ptr<float>();
    at::parallel_for(0, rows, grain(4 * f), [&](int64_t a, int64_t b) {
      kernels().swiglu_backward(pd + a * f, px + a * 2 * f, po + a * 2 * f, b - a, f);
    });
    return {dgu};
  }
};

static at::Tensor swiglu(const at::Tensor& gu) {
  TORCH_CHECK(gu.dim() == 2 && gu.size(1) % 2 == 0, "swiglu: gate_up ", gu.sizes(), " must be [n, 2f]");
  if (fused(gu)) return Swiglu::apply(gu);
  const auto halves = gu.chunk(2, -1);
  return at::silu(halves[0]) * halves[1];
}

// Sequence by sequence through ATen's own flash attention, which is differentiable. [n, h, d] -> [1, h, L, d] is a view.
static at::Tensor packed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const int64_t* cu, int nseq,
                                   double scale) {
  TORCH_CHECK(nseq > 0 && cu[0] == 0 && cu[nseq] == q.size(0) && k.size(0) == q.size(0), "packed_attention: offsets end at ",
              nseq > 0 ? cu[nseq] : 0, " for ", q.size(0), " tokens");
  TORCH_CHECK(q.size(1) % k.size(1) == 0, "packed_attention: ", q.size(1), " query heads for ", k.size(1), " key heads");
  const bool gqa = q.size(1) != k.size(1);
  std::vector<at::Tensor> outs;
  outs.reserve(nseq);
  const auto part = [&](const at::Tensor& t, int i) {
    return t.narrow(0, cu[i], cu[i + 1] - cu[i]).transpose(0, 1).unsqueeze(0);
  };
  for (int i = 0; i < nseq; i++) {
    if (cu[i + 1] == cu[i]) continue;
    auto o = at::scaled_dot_product_attention(part(q, i), part(k, i), part(v, i), std::nullopt, 0.0, /*is_causal=*/true, scale, gqa);
    outs.push_back(o.squeeze(0).transpose(0, 1));
  }
  return outs.size() == 1 ? outs[0].contiguous() : at::cat(outs, 0);
}

static void check_cache(const at::Tensor& keys, const at::Tensor& values, int64_t k, int64_t d) {
  TORCH_CHECK(keys.dim() == 4 && values.dim() == 4 && keys.size(1) == k && keys.size(2) == d && keys.size(3) == kBlock &&
                  values.size(2) == kBlock && values.size(3) == d && values.size(0) == keys.size(0),
              "cache: keys ", keys.sizes(), " and values ", values.sizes(), " for ", k, " heads of ", d);
}

static void cache_append(at::Tensor& keys, at::Tensor& values, const at::Tensor& k_, const at::Tensor& v_, const int32_t* table,
                         int width, const int32_t* seq, const int32_t* pos) {
  const auto k = k_.contiguous(), v = v_.contiguous();
  const int64_t n = k.size(0), heads = k.size(1), d = k.size(2);
  check_cache(keys, values, heads, d);
  TORCH_CHECK(fused(keys) && fused(k), "cache_append: fp32 on the CPU only");
  const auto *pk = k.const_data_ptr<float>(), *pv = v.const_data_ptr<float>();
  auto *ck = keys.data_ptr<float>(), *cv = values.data_ptr<float>();
  for (int64_t i = 0; i < n; i++)
    TORCH_CHECK(pos[i] / kBlock < width && table[seq[i] * width + pos[i] / kBlock] >= 0 &&
                    table[seq[i] * width + pos[i] / kBlock] < keys.size(0),
                "cache_append: sequence ", seq[i], " has no block for position ", pos[i]);
  at::parallel_for(0, n, grain(heads * d * 2), [&](int64_t a, int64_t b) {
    for (int64_t i = a; i < b; i++) {
      const int64_t blk = table[seq[i] * width + pos[i] / kBlock], at = pos[i] % kBlock;
      for (int64_t h = 0; h < heads; h++) {
        float* dk = ck + (blk * heads + h) * d * kBlock + at;
        float* dv = cv + (blk * heads + h) * d * kBlock + at * d;
        const float *sk = pk + (i * heads + h) * d, *sv = pv + (i * heads + h) * d;
        for (int64_t j = 0; j < d; j++) dk[j * kBlock] = sk[j];
        for (int64_t j = 0; j < d; j++) dv[j] = sv[j];
      }
    }
  });
}

static at::Tensor cache_attention(const at::Tensor& q_, const at::Tensor& keys, const at::Tensor& values, const int32_t* table,
                                  int width, const int32_t* seq, const int32_t* pos, double scale) {
  const auto q = q_.contiguous();
  const int64_t n = q.size(0), h = q.size(1), d = q.size(2), k = keys.size(1), g = h / k;
  check_cache(keys, values, k, d);
  TORCH_CHECK(fused(keys) && fused(q), "cache_attention: fp32 on the CPU only");
  TORCH_CHECK(h % k == 0 && g <= 64, "cache_attention: ", h, " query heads for ", k, " key heads");
  auto out = at::empty_like(q);
  const auto *pq = q.const_data_ptr<float>(), *ck = keys.const_data_ptr<float>(), *cv = values.const_data_ptr<float>();
  auto* po = out.data_ptr<float>();
  for (int64_t i = 0; i < n; i++) TORCH_CHECK(pos[i] >= 0 && pos[i] / kBlock < width, "cache_attention: position ", pos[i]);
  at::parallel_for(0, n * k, 8, [&](int64_t a, int64_t b) {
    for (int64_t r = a; r < b; r++) {
      const int64_t i = r / k, head = r % k;
      kernels().cache_attention(pq + (i * h + head * g) * d, ck, cv, table + static_cast<int64_t>(seq[i]) * width, k, head, g, d,
                                pos[i] + 1, static_cast<float>(scale), po + (i * h + head * g) * d);
    }
  });
  return out;
}

}  // namespace sead

using namespace sead;

extern "C" {

sn_status sn_rms_norm(sn_tensor x, sn_tensor w, double eps, sn_tensor* out) { GUARD(*out = give(rms_norm(T(x), T(w), eps))) }
sn_status sn_rope(sn_tensor x, sn_tensor cos, sn_tensor sin, sn_tensor pos, sn_tensor* out) {
  GUARD(*out = give(rope(T(x), T(cos), T(sin), T(pos))))
}
sn_status sn_swiglu(sn_tensor gate_up, sn_tensor* out) { GUARD(*out = give(swiglu(T(gate_up)))) }
sn_status sn_packed_attention(sn_tensor q, sn_tensor k, sn_tensor v, const int64_t* cu, int nseq, double scale, sn_tensor* out) {
  GUARD(*out = give(packed_attention(T(q), T(k), T(v), cu, nseq, scale)))
}
sn_status sn_cache_append(sn_tensor keys, sn_tensor values, sn_tensor k, sn_tensor v, const int32_t* table, int width,
                          const int32_t* seq, const int32_t* pos) {
  GUARD(cache_append(T(keys), T(values), T(k), T(v), table, width, seq, pos))
}
sn_status sn_cache_attention(sn_tensor q, sn_tensor keys, sn_tensor values, const int32_t* table, int width,
                             const int32_t* seq, const int32_t* pos, double scale, sn_tensor* out) {
  GUARD(*out = give(cache_attention(T(q), T(keys), T(values), table, width, seq, pos, scale)))
}
sn_status sn_cache_copy_block(sn_tensor keys, sn_tensor values, int32_t from, int32_t to) {
  GUARD({
    T(keys).select(0, to).copy_(T(keys).select(0, from));
    T(values).select(0, to).copy_(T(values).select(0, from));
  })
}

}  // extern "C"
