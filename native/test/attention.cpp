// Packed attention and the paged cache against plain double arithmetic, at lengths around blocks and vector widths.
#include "test.h"

// plain is causal attention of one sequence: q [L, h, d], k and v [L, kv, d]; values of the rows from `from` on.
static std::vector<double> plain(const float* q, const float* k, const float* v, int64_t L, int64_t h, int64_t kv, int64_t d, double scale) {
  std::vector<double> out(L * h * d);
  for (int64_t i = 0; i < L; i++)
    for (int64_t a = 0; a < h; a++) {
      const int64_t b = a / (h / kv);
      std::vector<double> p(i + 1);
      double top = -1e300, sum = 0;
      for (int64_t j = 0; j <= i; j++) {
        for (int64_t e = 0; e < d; e++) p[j] += double(q[(i * h + a) * d + e]) * k[(j * kv + b) * d + e] * scale;
        top = std::max(top, p[j]);
      }
      for (auto& x : p) sum += x = std::exp(x - top);
      for (int64_t j = 0; j <= i; j++)
        for (int64_t e = 0; e < d; e++) out[(i * h + a) * d + e] += p[j] / sum * v[(j * kv + b) * d + e];
    }
  return out;
}

TEST(packed_attention) {
  const int64_t h = 4, kv = 2, d = 10, cu[] = {0, 1, 1, 34, 41}, n = 41;
  const auto q = random_values(n * h * d, 1), k = random_values(n * kv * d, 2), v = random_values(n * kv * d, 3);
  std::vector<double> want;
  for (int s = 0; s < 4; s++) {
    const auto part = plain(&q[cu[s] * h * d], k.data() + cu[s] * kv * d, v.data() + cu[s] * kv * d, cu[s + 1] - cu[s], h, kv, d, 0.3);
    want.insert(want.end(), part.begin(), part.end());
  }
  Tensor tq({n, h, d}, q), tk({n, kv, d}, k), tv({n, kv, d}, v), out;
  sn_set_grad_enabled(0);
  OK(sn_packed_attention(tq, tk, tv, cu, 4, 0.3, out.out()));
  near("packed_attention", out.values(), want, 5e-6);
  const int64_t back[] = {0, 5, 3, 41}, short_[] = {0, 40};
  sn_tensor none = nullptr;
  FAILS(sn_packed_attention(tq, tk, tv, back, 3, 0.3, &none), SN_ERROR, "goes back from 5 to 3");
  FAILS(sn_packed_attention(tq, tk, tv, short_, 1, 0.3, &none), SN_ERROR, "must run from 0 to 41");
}

TEST(cache_attention_over_scattered_blocks) {
  for (int64_t d : {1, 4, 7, 16, 20, 64})
    for (int64_t L : {1, SN_BLOCK - 1, SN_BLOCK + 0, SN_BLOCK + 1, 3 * SN_BLOCK}) {
      const int64_t h = 6, kv = 2, blocks = 4;
      const int32_t table[] = {2, 0, 3};  // a sequence's blocks lie anywhere; block 1 belongs to nobody
      const auto q = random_values(L * h * d, 4), k = random_values(L * kv * d, 5), v = random_values(L * kv * d, 6);
      Tensor keys({blocks, kv, d, SN_BLOCK}, random_values(blocks * kv * d * SN_BLOCK, 7));
      Tensor values({blocks, kv, SN_BLOCK, d}, random_values(blocks * kv * d * SN_BLOCK, 8));
      Tensor tq({L, h, d}, q), tk({L, kv, d}, k), tv({L, kv, d}, v), out;
      std::vector<int32_t> seq(L, 0), pos(L);
      for (int64_t i = 0; i < L; i++) pos[i] = static_cast<int32_t>(i);
      sn_set_grad_enabled(0);
      OK(sn_cache_append(keys, values, nullptr, tk, tv, nullptr, nullptr, table, 3, 1, seq.data(), pos.data(), nullptr));
      OK(sn_cache_attention(tq, keys, values, table, 3, 1, seq.data(), pos.data(), 0.25, out.out()));
      near("cache_attention", out.values(), plain(q.data(), k.data(), v.data(), L, h, kv, d, 0.25), 5e-6);
    }
}

// Rotating on the way gives the bits of rotating before; heads may be slices of one projection.
TEST(cache_append_rotates) {
  const int64_t n = 5, h = 4, kv = 2, d = 12, far = 2 * SN_BLOCK;
  Tensor qkv({n, h + 2 * kv, d}, random_values(n * (h + 2 * kv) * d, 1)), cos({far, d / 2}, random_values(far * d / 2, 2)), sin({far, d / 2}, random_values(far * d / 2, 3));
  const int32_t table[] = {1, 0}, seq[] = {0, 0, 0, 0, 0}, pos[] = {SN_BLOCK - 2, SN_BLOCK - 1, SN_BLOCK, SN_BLOCK + 1, far - 1};
  const int64_t sizes[] = {h, kv, kv};
  sn_tensor part[3];
  sn_set_grad_enabled(0);
  OK(sn_split(qkv, sizes, 3, 1, part));
  Tensor q, k, v, index, q1, q2, k1, none;
  q.h = part[0], k.h = part[1], v.h = part[2];
  const int64_t positions[] = {pos[0], pos[1], pos[2], pos[3], pos[4]};
  OK(sn_from_host(positions, sizeof positions, &n, 1, SN_I64, index.out()));
  OK(sn_rope(q, cos, sin, index, q1.out()));
  OK(sn_rope(k, cos, sin, index, k1.out()));
  Tensor keys[2] = {Tensor({2, kv, d, SN_BLOCK}, std::vector<float>(2 * kv * d * SN_BLOCK)), Tensor({2, kv, d, SN_BLOCK}, std::vector<float>(2 * kv * d * SN_BLOCK))};
  Tensor values[2] = {Tensor({2, kv, SN_BLOCK, d}, std::vector<float>(2 * kv * d * SN_BLOCK)), Tensor({2, kv, SN_BLOCK, d}, std::vector<float>(2 * kv * d * SN_BLOCK))};
  OK(sn_cache_append(keys[0], values[0], nullptr, k1, v, nullptr, nullptr, table, 2, 1, seq, pos, nullptr));
  OK(sn_cache_append(keys[1], values[1], q, k, v, cos, sin, table, 2, 1, seq, pos, q2.out()));
  CHECK(keys[0].values() == keys[1].values(), "keys differ");
  CHECK(values[0].values() == values[1].values(), "values differ");
  CHECK(q1.values() == q2.values(), "queries differ");
  FAILS(sn_cache_append(keys[0], values[0], q, k, v, sin, keys[0], table, 2, 1, seq, pos, none.out()), SN_ERROR, "do not fit rotary tables");
  Tensor shorter({far - 1, d / 2}, random_values((far - 1) * d / 2, 2));
  FAILS(sn_cache_append(keys[0], values[0], q, k, v, shorter, shorter, table, 2, 1, seq, pos, none.out()), SN_INDEX, "position 63 of row 4 is outside the table of 63");
}

// Three sequences that begin with the same two blocks, one of them with two rows, and one that shares nothing: every row
// as if it were alone.
TEST(cache_attention_shares_blocks) {
  const int64_t h = 6, kv = 2, d = 20, blocks = 9;
  Tensor keys({blocks, kv, d, SN_BLOCK}, random_values(blocks * kv * d * SN_BLOCK, 1));
  Tensor values({blocks, kv, SN_BLOCK, d}, random_values(blocks * kv * d * SN_BLOCK, 2));
  const int32_t table[] = {4, 2, 0, -1, 4, 2, 7, 1, 4, 2, -1, -1, 3, 5, 6, 8};
  const std::vector<int32_t> seq{0, 1, 1, 2, 3}, pos{2 * SN_BLOCK + 3, 3 * SN_BLOCK + 4, 3 * SN_BLOCK + 5, 2 * SN_BLOCK - 1, 3 * SN_BLOCK};
  const auto q = random_values(5 * h * d, 3);
  Tensor all({5, h, d}, q), out;
  sn_set_grad_enabled(0);
  OK(sn_cache_attention(all, keys, values, table, 4, 4, seq.data(), pos.data(), 0.25, out.out()));
  const auto together = out.values();
  for (int i = 0; i < 5; i++) {
    Tensor row({1, h, d}, std::vector<float>(q.begin() + i * h * d, q.begin() + (i + 1) * h * d)), one;
    OK(sn_cache_attention(row, keys, values, table, 4, 4, &seq[i], &pos[i], 0.25, one.out()));
    CHECK(one.values() == std::vector<float>(together.begin() + i * h * d, together.begin() + (i + 1) * h * d), "row %d", i);
  }
}

TEST(cache_refuses_what_lies_outside) {
  const int64_t d = 8;
  Tensor keys({2, 1, d, SN_BLOCK}, std::vector<float>(2 * d * SN_BLOCK)), values({2, 1, SN_BLOCK, d}, std::vector<float>(2 * d * SN_BLOCK));
  Tensor row({1, 1, d}, std::vector<float>(d)), out;
  const int32_t table[] = {0, 1}, wrong[] = {0, 2}, zero = 0, one = 1, minus = -1, far = 2 * SN_BLOCK, second = SN_BLOCK;
  FAILS(sn_cache_append(keys, values, nullptr, row, row, nullptr, nullptr, table, 2, 1, &one, &zero, nullptr), SN_INDEX, "sequence 1 of 1");
  FAILS(sn_cache_append(keys, values, nullptr, row, row, nullptr, nullptr, table, 2, 1, &zero, &minus, nullptr), SN_INDEX, "position -1");
  FAILS(sn_cache_append(keys, values, nullptr, row, row, nullptr, nullptr, table, 2, 1, &zero, &far, nullptr), SN_INDEX, "position 64");
  FAILS(sn_cache_append(keys, values, nullptr, row, row, nullptr, nullptr, wrong, 2, 1, &zero, &second, nullptr), SN_INDEX, "block 2 at 1");
  FAILS(sn_cache_attention(row, keys, values, wrong, 2, 1, &zero, &second, 1, out.out()), SN_INDEX, "block 2 at 1");
  FAILS(sn_cache_copy_block(keys, values, 0, 7), SN_INDEX, "");
  OK(sn_cache_copy_block(keys, values, 0, 1));
}
