// Attention of rows over the paged cache: generation.
#include "functions.h"
#include "kernels/kernels.h"

namespace sead {

// Where the rows of a batch stand in the cache.
struct Rows {
  const int32_t* table;
  int width, nseq;
  const int32_t *seq, *pos;
  const int32_t* blocks(int64_t i) const { return table + static_cast<int64_t>(seq[i]) * width; }
};

static void check_cache(const char* op, const at::Tensor& keys, const at::Tensor& values, const at::Tensor& rows) {
  TORCH_CHECK(rows.dim() == 3 && keys.dim() == 4 && values.dim() == 4 && keys.size(1) > 0 && keys.size(2) == rows.size(2) &&
                  keys.size(3) == kBlock && values.size(0) == keys.size(0) && values.size(1) == keys.size(1) &&
                  values.size(2) == kBlock && values.size(3) == rows.size(2),
              op, ": keys ", keys.sizes(), " and values ", values.sizes(), " do not fit rows ", rows.sizes());
  TORCH_CHECK_NOT_IMPLEMENTED(rows.is_meta() || (fused(keys) && fused(values) && fused(rows)), op, ": fp32 on the CPU only, not ",
                              keys.scalar_type(), " on ", keys.device());
  TORCH_CHECK(keys.is_contiguous() && values.is_contiguous(), op, ": the cache is not contiguous");
}

// Every block that row i touches, from the given one on, must be one of the cache: a wrong number would be silent.
static void check_rows(const char* op, const Rows& r, int64_t n, int64_t blocks, bool all) {
  for (int64_t i = 0; i < n; i++) {
    TORCH_CHECK_INDEX(r.seq[i] >= 0 && r.seq[i] < r.nseq, op, ": row ", i, " is of sequence ", r.seq[i], " of ", r.nseq);
    TORCH_CHECK_INDEX(r.pos[i] >= 0 && r.pos[i] / kBlock < r.width, op, ": row ", i, " is at position ", r.pos[i], ", the table has room for ",
                      static_cast<int64_t>(r.width) * kBlock);
    const int64_t last = r.pos[i] / kBlock;
    for (int64_t b = all ? 0 : last; b <= last; b++)
      TORCH_CHECK_INDEX(r.blocks(i)[b] >= 0 && r.blocks(i)[b] < blocks, op, ": sequence ", r.seq[i], " has block ", r.blocks(i)[b], " at ", b,
                        ", the cache has ", blocks);
  }
}

static void cache_append(const at::Tensor& keys, const at::Tensor& values, const at::Tensor& k_, const at::Tensor& v_, const Rows& rows) {
  check_cache("cache_append", keys, values, k_);
  TORCH_CHECK(v_.sizes() == k_.sizes() && k_.size(1) == keys.size(1), "cache_append: k ", k_.sizes(), " and v ", v_.sizes(),
              " for a cache of ", keys.size(1), " heads");
  const int64_t n = k_.size(0), heads = k_.size(1), d = k_.size(2);
  check_rows("cache_append", rows, n, keys.size(0), false);
  if (k_.is_meta()) return;
  TORCH_CHECK(fused(v_), "cache_append: v is ", v_.scalar_type());
  const auto k = k_.contiguous(), v = v_.contiguous();
  const auto *pk = k.const_data_ptr<float>(), *pv = v.const_data_ptr<float>();
  auto *ck = keys.mutable_data_ptr<float>(), *cv = values.mutable_data_ptr<float>();
  at::parallel_for(0, n, grain(heads * d * 2), [&](int64_t a, int64_t b) {
    for (int64_t i = a; i < b; i++) {
      const int64_t blk = rows.blocks(i)[rows.pos[i] / kBlock], slot = rows.pos[i] % kBlock;
      for (int64_t h = 0; h < heads; h++) {
        float* dk = ck + (blk * heads + h) * d * kBlock + slot;
        float* dv = cv + ((blk * heads + h) * kBlock + slot) * d;
        const float *sk = pk + (i * heads + h) * d, *sv = pv + (i * heads + h) * d;
        for (int64_t j = 0; j < d; j++) dk[j * kBlock] = sk[j];
        std::copy(sv, sv + d, dv);
      }
    }
  });
}

// Neighbouring rows whose first blocks are the same: rows of one sequence, or sequences that begin with one prompt.
struct Tile {
  int64_t first, rows, shared;  // shared: blocks
};

// A row joins the tile before it if the blocks it saves are at least those that the others must read again.
static std::vector<Tile> tiles(const Rows& rows, int64_t n, int64_t most) {
  std::vector<Tile> out;
  for (int64_t i = 0; i < n; i++) {
    const int64_t whole = (rows.pos[i] + 1) / kBlock;
    if (!out.empty() && out.back().rows < most) {
      auto& t = out.back();
      const int32_t *a = rows.blocks(t.first), *b = rows.blocks(i);
      int64_t same = 0;
      while (same < std::min(t.shared, whole) && a[same] == b[same]) same++;
      if (same >= (t.shared - same) * (t.rows - 1)) {
        t.rows++;
        t.shared = same;
        continue;
      }
    }
    out.push_back({i, 1, whole});
  }
  return out;
}

static at::Tensor cache_attention(const at::Tensor& q_, const at::Tensor& keys, const at::Tensor& values, const Rows& rows, double scale) {
  check_cache("cache_attention", keys, values, q_);
  const int64_t n = q_.size(0), h = q_.size(1), d = q_.size(2), k = keys.size(1), g = h / k;
  TORCH_CHECK(h % k == 0 && g <= kMaxGroup, "cache_attention: ", h, " query heads for ", k, " key heads (at most ", kMaxGroup, " share one)");
  check_rows("cache_attention", rows, n, keys.size(0), true);
  const auto q = q_.contiguous();
  auto out = at::empty_like(q);
  if (n == 0 || q.is_meta()) return out;
  const auto *pq = q.const_data_ptr<float>(), *ck = keys.const_data_ptr<float>(), *cv = values.const_data_ptr<float>();
  auto* po = out.mutable_data_ptr<float>();
  int64_t seen = 0;
  for (int64_t i = 0; i < n; i++) seen += rows.pos[i] + 1;
  const auto parts = tiles(rows, n, std::min<int64_t>(kTileRows, kTileQueries / g));
  const int64_t units = static_cast<int64_t>(parts.size()) * k;
  share(units, grain(seen * h * d / units), [&](const auto& next) {
    CacheRow row[kTileRows];
    for (int64_t u; (u = next()) < units;) {
      const auto& t = parts[u / k];
      const int64_t head = u % k;
      for (int64_t i = 0; i < t.rows; i++) {
        const int64_t r = t.first + i, at = (r * h + head * g) * d;
        row[i] = {pq + at, po + at, rows.blocks(r), rows.pos[r] + 1};
      }
      kernels().cache_attention(row, t.rows, t.shared, ck, cv, k, head, g, d, static_cast<float>(scale));
    }
  });
  return out;
}

}  // namespace sead

using namespace sead;

extern "C" {

sn_status sn_cache_append(sn_tensor keys, sn_tensor values, sn_tensor k, sn_tensor v, const int32_t* table, int width, int nseq,
                          const int32_t* seq, const int32_t* pos) {
  GUARD(cache_append(T(keys), T(values), T(k), T(v), {table, width, nseq, seq, pos}))
}
sn_status sn_cache_attention(sn_tensor q, sn_tensor keys, sn_tensor values, const int32_t* table, int width, int nseq,
                             const int32_t* seq, const int32_t* pos, double scale, sn_tensor* out) {
  GUARD(*out = give(cache_attention(T(q), T(keys), T(values), {table, width, nseq, seq, pos}, scale)))
}
sn_status sn_cache_copy_block(sn_tensor keys, sn_tensor values, int32_t from, int32_t to) {
  GUARD({
    T(keys).select(0, to).copy_(T(keys).select(0, from));
    T(values).select(0, to).copy_(T(values).select(0, from));
  })
}

}  // extern "C"
