// Attention of rows over the paged cache: generation. In fp32 on the CPU by fused kernels; elsewhere by ATen's operations,
// which take every device and type.
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
  TORCH_CHECK_TYPE(keys.scalar_type() == rows.scalar_type() && values.scalar_type() == rows.scalar_type() && keys.device() == rows.device() &&
                       values.device() == rows.device(),
                   op, ": keys are ", keys.scalar_type(), " on ", keys.device(), ", values ", values.scalar_type(), " on ", values.device(), ", rows ",
                   rows.scalar_type(), " on ", rows.device());
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

// n numbers on a device.
template <class F>
static at::Tensor index_of(int64_t n, at::Device device, const F& at) {
  auto t = at::empty({n}, at::kLong);
  auto* p = t.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < n; i++) p[i] = at(i);
  return t.to(device);
}

static at::Tensor append_plain(const at::Tensor& keys, const at::Tensor& values, const at::Tensor& q, const at::Tensor& k_, const at::Tensor& v,
                               const at::Tensor& cos, const at::Tensor& sin, const Rows& rows) {
  using at::indexing::Slice;
  const int64_t n = k_.size(0);
  const auto pos = index_of(n, k_.device(), [&](int64_t i) { return rows.pos[i]; });
  const auto block = index_of(n, k_.device(), [&](int64_t i) { return rows.blocks(i)[rows.pos[i] / kBlock]; }), slot = pos.remainder(kBlock);
  const auto k = cos.defined() ? rope(k_, cos, sin, pos) : k_;
  at::Tensor(keys).index_put_({block, Slice(), Slice(), slot}, k);
  at::Tensor(values).index_put_({block, Slice(), slot}, v);
  return cos.defined() ? rope(q, cos, sin, pos) : at::Tensor();
}

// Some rows at a time: their keys and values are gathered, 64 MiB of either at most unless one row alone needs more.
static at::Tensor attention_plain(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values, const Rows& rows, double scale) {
  const int64_t n = q.size(0), h = q.size(1), d = q.size(2), k = keys.size(1);
  std::vector<at::Tensor> out;
  for (int64_t from = 0; from < n;) {
    int64_t m = 0, width = 0;
    for (int64_t i = from; i < n; i++) {
      const int64_t wide = std::max<int64_t>(width, rows.pos[i] / kBlock + 1);
      if (m > 0 && (m + 1) * wide * kBlock * k * d > (64 << 20) / static_cast<int64_t>(q.element_size())) break;
      m++, width = wide;
    }
    const auto block = index_of(m * width, q.device(), [&](int64_t i) {
      const int64_t row = from + i / width, at = i % width;
      return at <= rows.pos[row] / kBlock ? rows.blocks(row)[at] : 0;
    });
    const auto last = index_of(m, q.device(), [&](int64_t i) { return rows.pos[from + i]; });
    const auto later = at::arange(width * kBlock, last.options()).unsqueeze(0) > last.unsqueeze(1);  // [m, tokens]
    const auto ks = keys.index_select(0, block).view({m, width, k, d, kBlock}).permute({0, 2, 3, 1, 4}).reshape({m, k, d, width * kBlock});
    const auto vs = values.index_select(0, block).view({m, width, k, kBlock, d}).permute({0, 2, 1, 3, 4}).reshape({m, k, width * kBlock, d});
    const auto s = q.narrow(0, from, m).reshape({m, k, h / k, d}).matmul(ks).mul(scale).masked_fill(later.view({m, 1, 1, -1}), -INFINITY);
    // What stands behind the end may be anything, also NaN, which 0 does not remove.
    out.push_back(s.softmax(-1).matmul(vs.masked_fill(later.view({m, 1, -1, 1}), 0)).reshape({m, h, d}));
    from += m;
  }
  return out.empty() ? at::empty_like(q) : at::cat(out);
}

// Stores k and v at their rows' places; with rotary tables (else undefined) k is rotated on its way, and the rotated q returned.
static at::Tensor cache_append(const at::Tensor& keys, const at::Tensor& values, const at::Tensor& q_, const at::Tensor& k_, const at::Tensor& v_,
                               const at::Tensor& cos_, const at::Tensor& sin_, const Rows& rows) {
  check_cache("cache_append", keys, values, k_);
  TORCH_CHECK(v_.sizes() == k_.sizes() && k_.size(1) == keys.size(1), "cache_append: k ", k_.sizes(), " and v ", v_.sizes(),
              " for a cache of ", keys.size(1), " heads");
  const int64_t n = k_.size(0), heads = k_.size(1), d = k_.size(2);
  const bool turn = cos_.defined();
  TORCH_CHECK(!turn || (q_.dim() == 3 && q_.size(0) == n && q_.size(2) == d && cos_.dim() == 2 && sin_.sizes() == cos_.sizes() && d == 2 * cos_.size(1)),
              "cache_append: q ", turn ? q_.sizes() : at::IntArrayRef(), " and k ", k_.sizes(), " do not fit rotary tables ", turn ? cos_.sizes() : at::IntArrayRef());
  check_rows("cache_append", rows, n, keys.size(0), false);
  for (int64_t i = 0; turn && i < n; i++)
    TORCH_CHECK_INDEX(rows.pos[i] < cos_.size(0), "cache_append: position ", rows.pos[i], " of row ", i, " is outside the table of ", cos_.size(0));
  if (k_.is_meta()) return turn ? at::empty_like(q_, at::MemoryFormat::Contiguous) : at::Tensor();
  TORCH_CHECK_TYPE(v_.scalar_type() == k_.scalar_type() && (!turn || q_.scalar_type() == k_.scalar_type()), "cache_append: k is ", k_.scalar_type(),
                   ", v ", v_.scalar_type());
  if (!fused(k_) || (turn && (!fused(cos_) || !fused(sin_)))) return append_plain(keys, values, q_, k_, v_, cos_, sin_, rows);
  const auto k = rows_dense(k_), v = rows_dense(v_), q = turn ? rows_dense(q_) : q_, cos = turn ? cos_.contiguous() : cos_, sin = turn ? sin_.contiguous() : sin_;
  const int64_t h = turn ? q.size(1) : 0;
  const auto out = turn ? at::empty({n, h, d}, q.options()) : at::Tensor();
  const auto *pk = k.const_data_ptr<float>(), *pv = v.const_data_ptr<float>(), *pq = turn ? q.const_data_ptr<float>() : nullptr,
             *pc = turn ? cos.const_data_ptr<float>() : nullptr, *ps = turn ? sin.const_data_ptr<float>() : nullptr;
  auto *ck = keys.mutable_data_ptr<float>(), *cv = values.mutable_data_ptr<float>(), *po = turn ? out.mutable_data_ptr<float>() : nullptr;
  const int64_t ks = k.stride(0), vs = v.stride(0), qs = turn ? q.stride(0) : 0;
  // What a row costs is waiting for the lines of its keys, not its arithmetic.
  at::parallel_for(0, n, 2, [&](int64_t a, int64_t b) {
    std::vector<float> turned(heads * d);
    for (int64_t i = a; i < b; i++) {
      const int64_t blk = rows.blocks(i)[rows.pos[i] / kBlock], slot = rows.pos[i] % kBlock, at = rows.pos[i];
      float* dk = ck + blk * heads * d * kBlock + slot;
      for (int64_t j = 0; j < heads * d; j++) __builtin_prefetch(dk + j * kBlock, 1);
      const float* row = pk + i * ks;
      if (turn) {
        kernels().rope(pq + i * qs, qs, pc, ps, &at, po + i * h * d, 1, h, d, 1);
        kernels().rope(row, ks, pc, ps, &at, turned.data(), 1, heads, d, 1);
        row = turned.data();
      }
      for (int64_t j = 0; j < heads * d; j++) dk[j * kBlock] = row[j];
      for (int64_t e = 0; e < heads; e++) std::copy_n(pv + i * vs + e * d, d, cv + ((blk * heads + e) * kBlock + slot) * d);
    }
  });
  return out;
}

// Neighbouring rows whose first blocks are the same: rows of one sequence, or sequences that begin with one prompt.
struct Tile {
  int64_t first, rows, shared;  // shared: blocks
};

// A row joins the tile before it if the blocks it saves are some, and at least those that the others must read again.
static std::vector<Tile> tiles(const Rows& rows, int64_t n, int64_t most) {
  std::vector<Tile> out;
  for (int64_t i = 0; i < n; i++) {
    const int64_t whole = (rows.pos[i] + 1) / kBlock;
    if (!out.empty() && out.back().rows < most) {
      auto& t = out.back();
      const int32_t *a = rows.blocks(t.first), *b = rows.blocks(i);
      int64_t same = 0;
      while (same < std::min(t.shared, whole) && a[same] == b[same]) same++;
      if (same > 0 && same >= (t.shared - same) * (t.rows - 1)) {
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
  if (!q.is_meta() && !fused(q)) return attention_plain(q, keys, values, rows, scale);
  auto out = at::empty_like(q);
  if (n == 0 || q.is_meta()) return out;
  const auto *pq = q.const_data_ptr<float>(), *ck = keys.const_data_ptr<float>(), *cv = values.const_data_ptr<float>();
  auto* po = out.mutable_data_ptr<float>();
  int64_t seen = 0;
  for (int64_t i = 0; i < n; i++) seen += rows.pos[i] + 1;
  const auto parts = tiles(rows, n, std::min<int64_t>(kTileRows, kTileQueries / g));
  // With many tiles a unit is all heads of one, whose keys and values lie side by side; with few, a single head.
  const bool many = static_cast<int64_t>(parts.size()) >= 4 * at::get_num_threads();
  struct Unit {
    const Tile* tile;
    int64_t from, to;  // heads
  };
  std::vector<Unit> units;
  for (const auto& t : parts) {
    const int64_t heads = many ? std::clamp<int64_t>(kTileQueries / (t.rows * g), 1, k) : 1;
    for (int64_t from = 0; from < k; from += heads) units.push_back({&t, from, std::min(k, from + heads)});
  }
  const auto count = static_cast<int64_t>(units.size());
  share(count, grain(seen * h * d / count), [&](const auto& next) {
    CacheRow row[kTileRows];
    for (int64_t u; (u = next()) < count;) {
      const auto& t = *units[u].tile;
      for (int64_t i = 0; i < t.rows; i++) {
        const int64_t r = t.first + i;
        row[i] = {pq + r * h * d, po + r * h * d, rows.blocks(r), rows.pos[r] + 1};
      }
      kernels().cache_attention(row, t.rows, t.shared, ck, cv, k, units[u].from, units[u].to, g, d, static_cast<float>(scale));
    }
  });
  return out;
}

}  // namespace sead

using namespace sead;

extern "C" {

sn_status sn_cache_append(sn_tensor keys, sn_tensor values, sn_tensor q, sn_tensor k, sn_tensor v, sn_tensor cos, sn_tensor sin,
                          const int32_t* table, int width, int nseq, const int32_t* seq, const int32_t* pos, sn_tensor* out) {
  GUARD({
    const auto turned = cache_append(T(keys), T(values), maybe(q), T(k), T(v), maybe(cos), maybe(sin), {table, width, nseq, seq, pos});
    if (turned.defined()) *out = give(turned);
  })
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
