// ATen, one to one.
#include <cmath>

#include "functions.h"

using namespace sead;

static at::Tensor unary_op(int op, const at::Tensor& a) {
  switch (op) {
    case 0: return a.neg();
    case 1: return a.exp();
    case 2: return a.log();
    case 3: return at::silu(a);
    case 4: return a.rsqrt();
    case 5: return a.abs();
    case 6: return a.clone(at::MemoryFormat::Contiguous);
    case 7: return a.detach();
    case 8: return a.contiguous();
    case 9: return a.square();
    case 10: return at::sigmoid(a);
    case 11: return a.sqrt();
    case 12: return a.isnan();
  }
  TORCH_CHECK(false, "unary op ", op, " is unknown");
}

static at::Tensor binary_op(int op, const at::Tensor& a, const at::Tensor& b) {
  switch (op) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return a * b;
    case 3: return a / b;
    case 4: return a.matmul(b);
    case 5: return at::maximum(a, b);
    case 6: return at::minimum(a, b);
    case 7: return a.eq(b);
  }
  TORCH_CHECK(false, "binary op ", op, " is unknown");
}

static at::Tensor scalar_op(int op, const at::Tensor& a, double s) {
  switch (op) {
    case 0: return a + s;
    case 2: return a * s;
    case 3: return a.pow(s);
    case 4: return a.clamp_min(s);
    case 5: return a.clamp_max(s);
  }
  TORCH_CHECK(false, "scalar op ", op, " is unknown");
}

static at::Tensor reduce_op(int op, const at::Tensor& a, int64_t dim, bool keep) {
  switch (op) {
    case 0: return a.sum(dim, keep);
    case 1: return a.mean(dim, keep);
    case 2: return a.amax(dim, keep);
    case 3: return a.argmax(dim, keep);
    case 4: return a.logsumexp(dim, keep);
    case 5: return a.softmax(dim);
    case 6: return a.log_softmax(dim);
  }
  TORCH_CHECK(false, "reduction ", op, " is unknown");
}

static at::Tensor take(const at::Tensor& a, int64_t dim, const at::Tensor& index) {
  if (!a.is_meta()) return a.index_select(dim, index);
  TORCH_CHECK(index.dim() == 1, "index_select: index ", index.sizes(), " must have one dimension");
  auto shape = a.sizes().vec();
  shape[c10::maybe_wrap_dim(dim, a.dim())] = index.size(0);
  return only_shape(shape, {a});
}

static at::Tensor add_by_id(const at::Tensor& grad, const at::Tensor& ids, int64_t vocab) {
  TORCH_CHECK(grad.dim() == 2 && ids.dim() == 1 && ids.size(0) == grad.size(0), "embedding_backward: gradient ", grad.sizes(), " for ids ",
              ids.sizes(), ": a row each is needed");
  if (grad.is_meta()) return only_shape({vocab, grad.size(1)}, {grad});
  return at::embedding_dense_backward(grad, ids, vocab, -1, false);
}

extern "C" {

sn_status sn_binary(int op, sn_tensor a, sn_tensor b, sn_tensor* out) { GUARD(*out = give(binary_op(op, T(a), T(b)))) }
sn_status sn_scalar(int op, sn_tensor a, double s, sn_tensor* out) { GUARD(*out = give(scalar_op(op, T(a), s))) }
sn_status sn_unary(int op, sn_tensor a, sn_tensor* out) { GUARD(*out = give(unary_op(op, T(a)))) }
sn_status sn_reduce(int op, sn_tensor a, int dim, int keepdim, sn_tensor* out) {
  GUARD(*out = give(reduce_op(op, T(a), dim, keepdim != 0)))
}
sn_status sn_sum_all(sn_tensor a, sn_tensor* out) { GUARD(*out = give(T(a).sum())) }
sn_status sn_all_finite(sn_tensor a, int* out) {
  GUARD({
    const auto t = T(a).detach();
    const bool sure = t.is_meta() || t.numel() == 0 || !t.is_floating_point();
    // The largest magnitude is NaN where any is: one pass, no mask the size of the tensor.
    *out = sure || std::isfinite(at::linalg_vector_norm(t, INFINITY).item<double>());
  })
}
sn_status sn_matmul_out(sn_tensor a, int ta, sn_tensor b, int tb, sn_tensor out, double beta) {
  GUARD({
    auto x = ta ? T(a).t() : T(a);
    auto y = tb ? T(b).t() : T(b);
    T(out).addmm_(x, y, beta, 1);
  })
}
sn_status sn_add_(sn_tensor a, sn_tensor b, double alpha) { GUARD(T(a).add_(T(b), alpha)) }
sn_status sn_mul_scalar_(sn_tensor a, double s) { GUARD(T(a).mul_(s)) }
sn_status sn_mul_(sn_tensor a, sn_tensor b) { GUARD(T(a).mul_(T(b))) }
sn_status sn_zero_(sn_tensor a) { GUARD(T(a).zero_()) }
sn_status sn_fill_(sn_tensor a, double v) { GUARD(T(a).fill_(v)) }
sn_status sn_copy_(sn_tensor dst, sn_tensor src) { GUARD(T(dst).copy_(T(src))) }
sn_status sn_to(sn_tensor a, int dtype, int device, sn_tensor* out) {
  GUARD(*out = give(T(a).to(at::TensorOptions().dtype(to_dtype(dtype)).device(to_device(device)))))
}
sn_status sn_reshape(sn_tensor a, const int64_t* shape, int ndim, sn_tensor* out) {
  GUARD(*out = give(T(a).reshape(shape_of(shape, ndim))))
}
sn_status sn_transpose(sn_tensor a, int d0, int d1, sn_tensor* out) { GUARD(*out = give(T(a).transpose(d0, d1))) }
sn_status sn_narrow(sn_tensor a, int dim, int64_t start, int64_t len, sn_tensor* out) {
  GUARD(*out = give(T(a).narrow(dim, start, len)))
}
sn_status sn_split(sn_tensor a, const int64_t* sizes, int n, int dim, sn_tensor* out) {
  GUARD({
    auto parts = T(a).split_with_sizes(shape_of(sizes, n), dim);
    for (int i = 0; i < n; i++) out[i] = give(std::move(parts[i]));
  })
}
sn_status sn_cat(sn_tensor* ts, int n, int dim, sn_tensor* out) { GUARD(*out = give(at::cat(list(ts, n), dim))) }
sn_status sn_index_select(sn_tensor a, int dim, sn_tensor index, sn_tensor* out) {
  GUARD(*out = give(take(T(a), dim, T(index))))
}
sn_status sn_index_add_(sn_tensor a, int dim, sn_tensor index, sn_tensor src) {
  GUARD(T(a).index_add_(dim, T(index), T(src)))
}
sn_status sn_embedding_backward(sn_tensor grad, sn_tensor ids, int64_t vocab, sn_tensor* out) {
  GUARD(*out = give(add_by_id(T(grad), T(ids), vocab)))
}
sn_status sn_gather(sn_tensor a, int dim, sn_tensor index, sn_tensor* out) {
  GUARD(*out = give(T(a).gather(dim, T(index))))
}
sn_status sn_masked_fill(sn_tensor a, sn_tensor mask, double v, sn_tensor* out) {
  GUARD(*out = give(T(a).masked_fill(T(mask), v)))
}
sn_status sn_sdpa(sn_tensor q, sn_tensor k, sn_tensor v, sn_tensor mask, int causal, double scale, int gqa, sn_tensor* out) {
  GUARD(*out = give(at::scaled_dot_product_attention(T(q), T(k), T(v), mask ? std::optional<at::Tensor>(T(mask)) : std::nullopt,
                                                     0.0, causal != 0, scale, gqa != 0)))
}

}  // extern "C"
