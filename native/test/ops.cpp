// Every function that hands a tensor to ATen: once with a result that is plain to see, and once with operands that do not
// fit, which must be an error and leave no handle.
#include "test.h"

using Shape = std::vector<int64_t>;

// Handle owns a tensor that the library made.
class Handle {
  sn_tensor t_ = nullptr;

 public:
  Handle() = default;
  Handle(Handle&& o) noexcept : t_(o.t_) { o.t_ = nullptr; }
  ~Handle() { sn_free(t_); }
  operator sn_tensor() const { return t_; }
  sn_tensor* out() {
    sn_free(t_);
    t_ = nullptr;
    return &t_;
  }
};

static Handle tensor(const std::vector<float>& data, const Shape& shape) {
  Handle h;
  OK(sn_from_host(data.data(), data.size() * 4, shape.data(), static_cast<int>(shape.size()), SN_F32, h.out()));
  return h;
}
static Handle longs(const std::vector<int64_t>& data) {
  Handle h;
  const Shape shape{static_cast<int64_t>(data.size())};
  OK(sn_from_host(data.data(), data.size() * 8, shape.data(), 1, SN_I64, h.out()));
  return h;
}
static Handle zeros(const Shape& shape, int dtype = SN_F32, int device = SN_CPU) {
  Handle h;
  OK(sn_full(shape.data(), static_cast<int>(shape.size()), 0, dtype, device, h.out()));
  return h;
}
static Handle noise(uint64_t seed, const Shape& shape) {
  Handle h;
  OK(sn_randn(shape.data(), static_cast<int>(shape.size()), seed, SN_F32, SN_CPU, h.out()));
  return h;
}
static bool equal(sn_tensor t, const std::vector<float>& want) {
  if (!t || sn_numel(t) != static_cast<int64_t>(want.size())) return false;
  std::vector<float> got(want.size());
  OK(sn_to_host(t, got.data(), got.size() * 4));
  for (size_t i = 0; i < got.size(); i++)
    if (!(std::fabs(got[i] - want[i]) <= 1e-6 * std::fmax(1, std::fabs(want[i])))) return false;
  return true;
}

TEST(factories) {
  Handle t;
  const int64_t shape[] = {2, 3}, negative[] = {-1}, huge[] = {int64_t{1} << 50};
  for (int dtype = SN_F32; dtype <= SN_I8; dtype++) {
    OK(sn_empty(shape, 2, dtype, SN_CPU, t.out()));
    CHECK(sn_dtype(t) == dtype && sn_ndim(t) == 2 && sn_numel(t) == 6 && sn_is_contiguous(t) && sn_device(t) == SN_CPU);
    OK(sn_empty(shape, 2, dtype, SN_META, t.out()));
    CHECK(sn_device(t) == SN_META);
  }
  OK(sn_empty(nullptr, 0, SN_F32, SN_CPU, t.out()));
  CHECK(sn_ndim(t) == 0 && sn_numel(t) == 1);
  FAILS(sn_empty(shape, 2, 77, SN_CPU, t.out()), SN_ERROR, "");
  FAILS(sn_empty(shape, 2, SN_F32, 77, t.out()), SN_ERROR, "");
  FAILS(sn_empty(shape, 2, SN_F32, SN_CUDA, t.out()), SN_UNSUPPORTED, "");
  FAILS(sn_full(negative, 1, 0, SN_F32, SN_CPU, t.out()), SN_ERROR, "");
  FAILS(sn_empty(huge, 1, SN_F32, SN_CPU, t.out()), SN_OUT_OF_MEMORY, "");
  OK(sn_full(shape, 2, 1.5, SN_F32, SN_CPU, t.out()));
  CHECK(equal(t, {1.5, 1.5, 1.5, 1.5, 1.5, 1.5}));
  OK(sn_arange(3, SN_F32, SN_CPU, t.out()));
  CHECK(equal(t, {0, 1, 2}));
  FAILS(sn_arange(-3, SN_F32, SN_CPU, t.out()), SN_ERROR, "");
  OK(sn_randn(shape, 2, 1, SN_BF16, SN_META, t.out()));
  CHECK(sn_device(t) == SN_META && sn_dtype(t) == SN_BF16);
  FAILS(sn_randn(shape, 2, 1, SN_F32, 9, t.out()), SN_ERROR, "");
}

TEST(host_memory) {
  Handle t, view;
  const int64_t shape[] = {2, 2};
  float data[] = {1, 2, 3, 4}, back[4];
  OK(sn_from_host(data, 16, shape, 2, SN_F32, t.out()));
  FAILS(sn_from_host(data, 15, shape, 2, SN_F32, view.out()), SN_ERROR, "");
  data[0] = 9;
  CHECK(equal(t, {1, 2, 3, 4}));
  OK(sn_transpose(t, 0, 1, view.out()));
  CHECK(!sn_is_contiguous(view) && sn_data_ptr(view) == sn_data_ptr(t));
  OK(sn_to_host(view, back, 16));
  CHECK(back[1] == 3);
  FAILS(sn_to_host(t, back, 12), SN_ERROR, "");
  OK(sn_from_blob(data, shape, 2, SN_F32, t.out()));
  CHECK(sn_data_ptr(t) == data);
  FAILS(sn_from_blob(data, shape, 2, 77, t.out()), SN_ERROR, "");
  int64_t got[2];
  sn_shape(view, got);
  CHECK(got[0] == 2 && got[1] == 2);
  double v;
  FAILS(sn_item(view, &v), SN_ERROR, "");
  OK(sn_full(nullptr, 0, 2.5, SN_F32, SN_CPU, t.out()));
  OK(sn_item(t, &v));
  CHECK(v == 2.5);
}

TEST(handles) {
  const int64_t live = sn_live();
  sn_tensor many[3];
  for (auto& t : many) OK(sn_full(nullptr, 0, 1, SN_F32, SN_CPU, &t));
  CHECK(sn_live() == live + 3);
  sn_free_many(many, 3);
  sn_free_many(nullptr, 0);
  sn_free(nullptr);
  CHECK(sn_live() == live);
  // A freed handle that Go passes on as null is an error, wherever it stands.
  Handle t = zeros({2}), out;
  sn_tensor gone[] = {t, nullptr};
  FAILS(sn_binary(0, t, nullptr, out.out()), SN_VALUE, "");
  FAILS(sn_cat(gone, 2, 0, out.out()), SN_VALUE, "");
  FAILS(sn_zero_(nullptr), SN_VALUE, "");
}

TEST(process) {
  CHECK(strstr(sn_versions(), "2.") != nullptr && strlen(sn_isa()) > 3);
  const int before = sn_get_num_threads();
  for (int n : {1, 2, 3}) {
    OK(sn_set_num_threads(n));
    CHECK(sn_get_num_threads() == n && sn_openmp_threads() == n);
  }
  FAILS(sn_set_num_threads(0), SN_ERROR, "");
  OK(sn_set_num_threads(before));
}


// a = [1 2 3; 4 5 6], b = [6 5 4; 3 2 1]
static Handle a() { return tensor({1, 2, 3, 4, 5, 6}, {2, 3}); }
static Handle b() { return tensor({6, 5, 4, 3, 2, 1}, {2, 3}); }

TEST(binary_scalar_unary_reduce) {
  Handle out, x = a(), y = b(), wrong = zeros({4, 5});
  const std::vector<float> binary[] = {{7, 7, 7, 7, 7, 7}, {-5, -3, -1, 1, 3, 5}, {6, 10, 12, 12, 10, 6}, {1.f / 6, .4f, .75f, 4.f / 3, 2.5f, 6}};
  for (int op = 0; op < 4; op++) {
    OK(sn_binary(op, x, y, out.out()));
    CHECK(equal(out, binary[op]));
  }
  for (int op = 0; op < 8; op++) FAILS(sn_binary(op, x, wrong, out.out()), SN_ERROR, "");
  FAILS(sn_binary(99, x, y, out.out()), SN_ERROR, "");
  for (int op : {0, 2, 3, 4, 5}) OK(sn_scalar(op, x, 2, out.out()));
  CHECK(equal(out, {1, 2, 2, 2, 2, 2}));
  FAILS(sn_scalar(1, x, 2, out.out()), SN_ERROR, "");
  for (int op = 0; op <= 12; op++) OK(sn_unary(op, x, out.out()));
  FAILS(sn_unary(13, x, out.out()), SN_ERROR, "");
  for (int op = 0; op <= 6; op++) OK(sn_reduce(op, x, 1, 0, out.out()));
  OK(sn_reduce(0, x, -2, 1, out.out()));
  CHECK(equal(out, {5, 7, 9}) && sn_ndim(out) == 2);
  FAILS(sn_reduce(0, x, 2, 0, out.out()), SN_INDEX, "");
  FAILS(sn_reduce(7, x, 1, 0, out.out()), SN_ERROR, "");
  OK(sn_sum_all(x, out.out()));
  CHECK(equal(out, {21}));
  FAILS(sn_sum_all(nullptr, out.out()), SN_VALUE, "");
}

TEST(all_finite) {
  int ok = -1;
  OK(sn_all_finite(a(), &ok));
  CHECK(ok == 1);
  OK(sn_all_finite(tensor({1, NAN}, {2}), &ok));
  CHECK(ok == 0);
  OK(sn_all_finite(tensor({1, -INFINITY}, {2}), &ok));
  CHECK(ok == 0);
  OK(sn_all_finite(zeros({0}), &ok));
  CHECK(ok == 1);
  OK(sn_all_finite(zeros({3}, SN_I64), &ok));
  CHECK(ok == 1);
  FAILS(sn_all_finite(nullptr, &ok), SN_VALUE, "");
}

TEST(matrices) {
  Handle out, x = a(), y = b(), bias = tensor({100, 200}, {2}), wrong = zeros({4, 5});
  OK(sn_linear(x, y, bias, out.out()));
  CHECK(equal(out, {128, 210, 173, 228}));  // x·yᵀ = [28 10; 73 28]
  FAILS(sn_linear(x, wrong, nullptr, out.out()), SN_ERROR, "");
  OK(sn_linear(zeros({3, 0}), zeros({2, 0}), bias, out.out()));  // sums of nothing
  CHECK(equal(out, {100, 200, 100, 200, 100, 200}));
  OK(sn_linear(zeros({1, 0}), zeros({2, 0}), nullptr, out.out()));
  CHECK(equal(out, {0, 0}));
  OK(sn_linear(x, y, nullptr, out.out()));
  OK(sn_matmul_out(x, 0, y, 1, out, 2));
  CHECK(equal(out, {84, 30, 219, 84}));  // 3 × the product
  FAILS(sn_matmul_out(x, 0, y, 0, out, 1), SN_ERROR, "");
  Handle q = noise(1, {1, 2, 3, 4}), k = noise(2, {1, 1, 3, 4}), v = noise(3, {1, 1, 3, 4}), mask = zeros({3, 3});
  OK(sn_sdpa(q, k, v, mask, 0, .5, 1, out.out()));
  OK(sn_sdpa(q, k, v, nullptr, 1, .5, 1, out.out()));
  CHECK(sn_numel(out) == 24);
  FAILS(sn_sdpa(q, k, wrong, nullptr, 0, .5, 0, out.out()), SN_ERROR, "");
}

TEST(int8_weights) {
  Handle q, scale, out, back, x = a(), bias = tensor({100, 200, 300}, {3}), wrong = zeros({3, 3}), two = zeros({2});
  // Rows as multiples of max/127: 1 and .5; ties go to the even one. A row of zeros stays one.
  Handle w = tensor({127, -2.5, .4f, 63.5f, -1, 20.2f, 0, 0, 0}, {3, 3});
  OK(sn_quantize_rows(w, q.out(), scale.out()));
  CHECK(sn_dtype(q) == SN_I8 && equal(scale, {1, .5, 0}));
  OK(sn_to(q, SN_F32, SN_CPU, back.out()));
  CHECK(equal(back, {127, -2, 0, 127, -2, 40, 0, 0, 0}));
  Handle p, pf;
  OK(sn_pack_rows(q, p.out()));
  OK(sn_pack_rows(w, pf.out()));
  CHECK(sn_numel(p) == SN_PANEL * 3 && sn_dtype(p) == SN_I8);
  OK(sn_linear_packed(x, p, 3, scale, bias, out.out()));
  CHECK(equal(out, {223, 321.5, 300, 598, 569, 300}));
  OK(sn_linear_packed(x, p, 3, scale, nullptr, out.out()));
  CHECK(equal(out, {123, 121.5, 0, 498, 369, 0}));
  OK(sn_linear_packed(tensor({1, 0, 0}, {1, 3}), pf, 3, nullptr, nullptr, out.out()));
  CHECK(equal(out, {127, 63.5, 0}));
  OK(sn_linear_packed(zeros({0, 3}), pf, 3, nullptr, nullptr, out.out()));
  CHECK(sn_numel(out) == 0);
  FAILS(sn_linear_packed(zeros({2, 4}), p, 3, scale, nullptr, out.out()), SN_ERROR, "do not fit 3 outputs");
  FAILS(sn_linear_packed(x, p, 17, scale, nullptr, out.out()), SN_ERROR, "do not fit 17 outputs");
  FAILS(sn_linear_packed(x, q, 3, scale, nullptr, out.out()), SN_ERROR, "do not fit");
  FAILS(sn_linear_packed(x, p, 3, two, nullptr, out.out()), SN_ERROR, "one for each of 3 outputs");
  FAILS(sn_linear_packed(x, p, 3, nullptr, nullptr, out.out()), SN_ERROR, "one for each of 3 outputs");
  FAILS(sn_linear_packed(x, pf, 3, scale, nullptr, out.out()), SN_ERROR, "others none");
  FAILS(sn_linear_packed(x, p, 3, scale, two, out.out()), SN_ERROR, "bias [2] for 3 outputs");
  FAILS(sn_linear_packed(x, zeros({1, 3, SN_PANEL}, SN_I64), 3, nullptr, nullptr, out.out()), SN_TYPE, "weights are Long");
  FAILS(sn_linear_packed(zeros({2, 3}, SN_F64), pf, 3, nullptr, nullptr, out.out()), SN_UNSUPPORTED, "fp32 on the CPU only");
  FAILS(sn_pack_rows(two, p.out()), SN_ERROR, "a matrix");
  Handle meta = zeros({5, 3}, SN_F32, SN_META), mq, ms, mp;
  OK(sn_quantize_rows(meta, mq.out(), ms.out()));
  OK(sn_pack_rows(mq, mp.out()));
  OK(sn_linear_packed(zeros({2, 3}, SN_F32, SN_META), mp, 5, ms, nullptr, out.out()));
  CHECK(sn_numel(out) == 10 && sn_device(out) == SN_META && sn_dtype(mp) == SN_I8);
  FAILS(sn_quantize_rows(two, q.out(), scale.out()), SN_ERROR, "a matrix with columns");
}

TEST(in_place) {
  Handle x = a(), y = b(), wrong = zeros({4, 5});
  OK(sn_add_(x, y, 10));
  CHECK(equal(x, {61, 52, 43, 34, 25, 16}));
  OK(sn_mul_(x, y));
  OK(sn_mul_scalar_(x, .5));
  CHECK(equal(x, {183, 130, 86, 51, 25, 8}));
  OK(sn_copy_(x, y));
  CHECK(equal(x, {6, 5, 4, 3, 2, 1}));
  OK(sn_fill_(x, 2));
  OK(sn_zero_(y));
  OK(sn_index_add_(x, 1, longs({2, 2}), tensor({1, 2, 3, 4}, {2, 2})));
  CHECK(equal(x, {2, 2, 5, 2, 2, 9}) && equal(y, {0, 0, 0, 0, 0, 0}));
  FAILS(sn_add_(x, wrong, 1), SN_ERROR, "");
  FAILS(sn_mul_(x, wrong), SN_ERROR, "");
  FAILS(sn_copy_(x, wrong), SN_ERROR, "");
  FAILS(sn_mul_scalar_(nullptr, 1), SN_VALUE, "");
  FAILS(sn_fill_(nullptr, 1), SN_VALUE, "");
  FAILS(sn_index_add_(x, 5, longs({2}), wrong), SN_INDEX, "");
}

TEST(shapes) {
  Handle out, x = a(), other = zeros({9});
  OK(sn_to(x, SN_BF16, SN_CPU, out.out()));
  CHECK(sn_dtype(out) == SN_BF16);
  FAILS(sn_to(x, 77, SN_CPU, out.out()), SN_ERROR, "");
  const int64_t three[] = {3, -1}, four[] = {4};
  OK(sn_reshape(x, three, 2, out.out()));
  FAILS(sn_reshape(x, four, 1, out.out()), SN_ERROR, "");
  OK(sn_transpose(x, 0, 1, out.out()));
  FAILS(sn_transpose(x, 0, 2, out.out()), SN_INDEX, "");
  OK(sn_narrow(x, 1, 1, 2, out.out()));
  CHECK(equal(out, {2, 3, 5, 6}));
  FAILS(sn_narrow(x, 1, 4, 1, out.out()), SN_INDEX, "");
  const int64_t sizes[] = {1, 2}, wrong[] = {1, 1};
  sn_tensor parts[2];
  OK(sn_split(x, sizes, 2, 1, parts));
  CHECK(equal(parts[0], {1, 4}) && equal(parts[1], {2, 3, 5, 6}));
  sn_free_many(parts, 2);
  FAILS(sn_split(x, wrong, 2, 1, parts), SN_ERROR, "");
  sn_tensor pair[] = {x, x}, odd[] = {x, other};
  OK(sn_cat(pair, 2, 0, out.out()));
  CHECK(sn_numel(out) == 12);
  FAILS(sn_cat(odd, 2, 0, out.out()), SN_ERROR, "");
  OK(sn_gather(x, 1, zeros({2, 1}, SN_I64), out.out()));
  CHECK(equal(out, {1, 4}));
  FAILS(sn_gather(x, 4, zeros({2, 1}, SN_I64), out.out()), SN_INDEX, "");
  OK(sn_masked_fill(x, zeros({2, 3}, SN_BOOL), 7, out.out()));
  CHECK(equal(out, {1, 2, 3, 4, 5, 6}));
  FAILS(sn_masked_fill(x, x, 7, out.out()), SN_ERROR, "");
}

TEST(rows_by_index) {
  Handle out, x = a(), meta = zeros({2, 3}, SN_F32, SN_META), ids = longs({1, 1, 0}), meta_ids = zeros({3}, SN_I64, SN_META);
  OK(sn_index_select(x, 0, ids, out.out()));
  CHECK(equal(out, {4, 5, 6, 4, 5, 6, 1, 2, 3}));
  FAILS(sn_index_select(x, 0, longs({2}), out.out()), SN_INDEX, "");
  OK(sn_index_select(meta, -1, meta_ids, out.out()));
  CHECK(sn_device(out) == SN_META && sn_numel(out) == 6);
  FAILS(sn_index_select(meta, 3, meta_ids, out.out()), SN_INDEX, "");
  OK(sn_embedding_backward(x, longs({1, 1}), 3, out.out()));
  CHECK(equal(out, {0, 0, 0, 5, 7, 9, 0, 0, 0}));
  FAILS(sn_embedding_backward(x, ids, 3, out.out()), SN_ERROR, "");
  OK(sn_embedding_backward(meta, zeros({2}, SN_I64, SN_META), 7, out.out()));
  CHECK(sn_numel(out) == 21);
}

TEST(gradients) {
  sn_set_grad_enabled(1);
  CHECK(sn_grad_enabled());
  Handle x = tensor({2}, {1}), y = tensor({3}, {1}), other = tensor({4}, {1}), xx, out;
  for (sn_tensor t : {sn_tensor(x), sn_tensor(y), sn_tensor(other)}) OK(sn_requires_grad_(t, 1));
  FAILS(sn_requires_grad_(zeros({2}, SN_I64), 1), SN_ERROR, "");
  sn_tensor ins[] = {x, y, other}, grads[3];
  for (int allow_unused : {0, 1}) {  // other is not used
    OK(sn_binary(2, x, x, xx.out()));
    OK(sn_binary(2, xx, y, out.out()));
    sn_tensor outs[] = {out};
    if (allow_unused)
      OK(sn_grad(outs, nullptr, 1, ins, 3, 1, grads));
    else
      FAILS(sn_grad(outs, nullptr, 1, ins, 3, 0, grads), SN_ERROR, "");
  }
  sn_tensor outs[] = {out};
  CHECK(equal(grads[0], {12}) && equal(grads[1], {4}) && grads[2] == nullptr);  // d x²y
  sn_free_many(grads, 2);
  FAILS(sn_grad(outs, nullptr, 1, ins, 2, 1, grads), SN_ERROR, "");  // the graph is gone
  sn_set_grad_enabled(0);
  CHECK(!sn_grad_enabled());
  OK(sn_binary(2, x, y, out.out()));
  outs[0] = out;
  FAILS(sn_grad(outs, nullptr, 1, ins, 2, 1, grads), SN_ERROR, "");  // nothing was recorded
}


TEST(lists) {
  Handle p = tensor({1, 2}, {2}), g = tensor({.5, -1}, {2}), half = zeros({2}, SN_BF16), odd = zeros({3});
  sn_tensor ps[] = {p}, gs[] = {g}, halves[] = {half}, odds[] = {odd}, gone[] = {nullptr};
  OK(sn_adamw_(nullptr, nullptr, nullptr, nullptr, 0, 1, .1, .9, .999, 1e-12, .5));
  FAILS(sn_adamw_(ps, halves, ps, ps, 1, 1, .1, .9, .999, 1e-12, .5), SN_ERROR, "");
  OK(sn_foreach_copy_(halves, gs, 1));
  OK(sn_foreach_mul_(halves, 1, 4));
  OK(sn_foreach_copy_(ps, halves, 1));
  CHECK(equal(p, {2, -4}));
  FAILS(sn_foreach_copy_(ps, odds, 1), SN_ERROR, "");
  FAILS(sn_foreach_mul_(gone, 1, 2), SN_VALUE, "");
  double s = -1;
  OK(sn_sum_squares(ps, 1, &s));
  CHECK(std::fabs(s - 20) < 1e-12, "%.17g", s);
  FAILS(sn_sum_squares(gone, 1, &s), SN_VALUE, "");
}
