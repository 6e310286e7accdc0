// The table of fused CPU kernels. kernels/isa.cpp is compiled once per instruction set; kernels() picks the best one the
// processor has, once. Kernels work on a range of rows and know nothing of threads: their callers split
// the rows. Every row is computed alone and in a fixed order, so no result depends on how many rows there are.
#pragma once
#include <cstdint>

#include "../seadnative.h"

namespace sead {

constexpr int kBlock = SN_BLOCK;
constexpr int kMaxGroup = 64;   // query heads that share one key/value head
constexpr int kTileRows = 16, kTileQueries = 64;  // at most, of one call of cache_attention
constexpr int64_t kPanel = SN_PANEL;
constexpr int64_t kSpan = 512;  // logits handled at a time
constexpr float kOut = -1e30f;  // z of an id that is not allowed: its exp is exactly 0, and 0·z stays 0

// One row of attention over the paged cache.
struct CacheRow {
  const float* q;        // [h, d], of all heads
  float* out;            // [h, d]
  const int32_t* table;  // its blocks
  int64_t length;        // keys to see
};

// One head of one sequence of packed attention; strides are between tokens, in floats.
struct PackedHead {
  int64_t length, d;  // d a multiple of the kernels' width
  float scale;        // > 0
  const float *q, *k, *v;
  int64_t q_stride, k_stride, v_stride;
  float *out, *lse;  // out [length, d]; lse [length]: log Σ e^score
  int64_t out_stride;
};
struct PackedGrad {
  const float* dout;
  float *dq, *dk, *dv;  // dq is written; dk and dv are added to
  int64_t dout_stride, dq_stride, dk_stride;
};

// y [rows, n] = x [rows, k] · wᵀ (· scale [n]) + bias [n]. w is in panels [⌈n/kPanel⌉, k, kPanel], of outputs that lie side by
// side, what is missing in the last one being zeros; or, in fp32, plain [n, k].
struct Linear {
  enum Type { f32, bf16, i8, plain } type;  // of w
  const float* x;
  const void* w;
  const float *scale, *bias;  // or null
  float* y;
  int64_t rows, n, k;
};

struct Kernels {
  const char* name;
  int width;  // floats of a vector
  // y = x * rsqrt(mean(x²) + eps) * w; x, y [rows, c]; rstd [rows] is kept for the backward
  void (*rms_norm)(const float* x, const float* w, float* y, float* rstd, int64_t rows, int64_t c, float eps);
  // x += y, and its rms_norm in the same pass
  void (*add_rms_norm)(float* x, const float* y, const float* w, float* out, int64_t rows, int64_t c, float eps);
  // dx [rows, c]; dw [c] is added to
  void (*rms_norm_backward)(const float* dy, const float* x, const float* w, const float* rstd, float* dx, float* dw,
                            int64_t rows, int64_t c);
  // rotate pairs (i, i + d/2) of every head; x, y [rows, h, d] with the given row strides; sign -1 rotates back
  void (*rope)(const float* x, int64_t x_stride, const float* cos, const float* sin, const int64_t* pos, float* y,
               int64_t rows, int64_t h, int64_t d, float sign);
  // y = silu(gate) * up; gate_up [rows, 2f]
  void (*swiglu)(const float* gate_up, float* y, int64_t rows, int64_t f);
  void (*swiglu_backward)(const float* dy, const float* gate_up, float* dgate_up, int64_t rows, int64_t f);
  // attention of n rows over the key/value heads [from, to) of the paged cache, g query heads for each (n·g·(to - from) <=
  // kTileQueries): keys [blocks, k, d, B], values [blocks, k, B, d]. The first shared blocks are the same for all rows, and
  // all of them see them whole
  void (*cache_attention)(const CacheRow* rows, int64_t n, int64_t shared, const float* keys, const float* values,
                          int64_t kv_heads, int64_t from, int64_t to, int64_t g, int64_t d, float scale);
  // panels [from, to) of all rows
  void (*linear)(const Linear& l, int64_t from, int64_t to);
  // causal attention within a sequence; work holds packed_work(length, d) floats
  void (*packed_forward)(const PackedHead& h, float* work);
  void (*packed_backward)(const PackedHead& h, const PackedGrad& g, float* work);
  int64_t (*packed_work)(int64_t length, int64_t d);
  // stats[4] of one row of logits, see seadnative.h; bits: allowed ids (null: all) of the whole vocabulary
  void (*logit_stats)(const float* logits, int64_t v, int64_t offset, float t, const uint64_t* bits, int32_t target,
                      double* stats);
  // z = logit/t and p = exp(z - top) of the n <= kSpan ids from `from` on; gives the sum of p, -1 if none is allowed
  double (*logit_probs)(const float* logits, int64_t from, int64_t n, float t, const uint64_t* bits, float top, float* z,
                        float* p);
  // logits become the gradient for coefficients dlp of log π(target) and dent of the entropy
  void (*logit_grad)(float* logits, int64_t v, int64_t offset, float t, const uint64_t* bits, int32_t target, double lse,
                     double entropy, double dlp, double dent);
};

extern const Kernels kernels_generic, kernels_avx2, kernels_avx512;
bool supported(const Kernels& k);  // by this processor
const Kernels& kernels();          // the best supported ones, or those SEAD_ISA names

}  // namespace sead
