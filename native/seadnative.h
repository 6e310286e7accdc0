/* The C ABI of libseadnative: everything Go reaches of libtorch.
 *
 * Conventions
 *   - Every call that can fail returns sn_status: code 0 or an error with its message, from that same call. The
 *     message is malloc'ed; the caller frees it with sn_free_text.
 *   - sn_tensor is an owned handle (one at::Tensor on the heap). Outputs are fresh handles; inputs are borrowed.
 *     Names ending in _ change their first operand in place and give no handle.
 *   - Shapes in comments are [rows, columns]; legend: n tokens, h heads, k key/value heads, d head size, c hidden size,
 *     f MLP size, v vocabulary.
 *   - The library keeps no state of its own but the handle counter; grad mode is libtorch's, per thread.
 */
#ifndef SEADNATIVE_H
#define SEADNATIVE_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  int code;
  char* msg;
} sn_status;
typedef void* sn_tensor;

/* codes of sn_status */
enum {
  SN_OK = 0,
  SN_ERROR = 1,        /* c10::Error: shapes and the rest */
  SN_INDEX = 2,        /* c10::IndexError */
  SN_VALUE = 3,        /* c10::ValueError */
  SN_TYPE = 4,         /* c10::TypeError: dtypes */
  SN_UNSUPPORTED = 5,  /* c10::NotImplementedError */
  SN_OUT_OF_MEMORY = 6,
  SN_DIST = 7, /* a collective failed: a peer died, or time ran out */
  SN_STD = 8,  /* any other std::exception */
  SN_UNKNOWN = 9
};
/* dtypes and devices, as integers that are ours */
enum { SN_F32 = 0, SN_F64, SN_BF16, SN_F16, SN_I64, SN_I32, SN_U8, SN_BOOL, SN_I8 };
enum { SN_CPU = 0, SN_CUDA = 1, SN_META = 2 };
enum { SN_BLOCK = 32 }; /* tokens of one block of the paged cache: B below */
enum { SN_PANEL = 16 }; /* outputs of one panel of packed weights */

/* core.cpp */
void sn_init(void); /* once per process: cheap error texts, quiet warnings */
void sn_free_text(char* p);
void sn_free(sn_tensor t);
void sn_free_many(sn_tensor* t, int n);
int64_t sn_live(void); /* handles alive */
const char* sn_versions(void); /* "libtorch 2.11.0, …", static */
sn_status sn_set_num_threads(int n);
int sn_get_num_threads(void);
int sn_openmp_threads(void); /* size of the team at::parallel_for really gets */
const char* sn_isa(void);    /* "avx512", "avx2", "generic": the kernels in use */
sn_status sn_test_throw(int kind); /* throws one exception of every kind inside the guard: for tests of the boundary */

sn_status sn_empty(const int64_t* shape, int ndim, int dtype, int device, sn_tensor* out);
sn_status sn_full(const int64_t* shape, int ndim, double value, int dtype, int device, sn_tensor* out);
sn_status sn_arange(int64_t n, int dtype, int device, sn_tensor* out);
sn_status sn_randn(const int64_t* shape, int ndim, uint64_t seed, int dtype, int device, sn_tensor* out);
/* copies nbytes from host memory */
sn_status sn_from_host(const void* data, size_t nbytes, const int64_t* shape, int ndim, int dtype, sn_tensor* out);
/* borrows host memory: it must outlive the tensor and its views */
sn_status sn_from_blob(void* data, const int64_t* shape, int ndim, int dtype, sn_tensor* out);
sn_status sn_to_host(sn_tensor t, void* data, size_t nbytes); /* contiguous copy out */
/* inspection: cannot fail, so t must be a live handle */
int sn_ndim(sn_tensor t);
void sn_shape(sn_tensor t, int64_t* out);
int sn_dtype(sn_tensor t);
int sn_device(sn_tensor t);
int64_t sn_numel(sn_tensor t);
int sn_is_contiguous(sn_tensor t);
void* sn_data_ptr(sn_tensor t);
sn_status sn_item(sn_tensor t, double* out);

/* ops.cpp: one-to-one with ATen */
sn_status sn_binary(int op, sn_tensor a, sn_tensor b, sn_tensor* out); /* 0 + 1 - 2 * 3 / 4 matmul 5 max 6 min 7 eq */
sn_status sn_scalar(int op, sn_tensor a, double s, sn_tensor* out);    /* 0 + 2 * 3 pow 4 clamp_min 5 clamp_max */
sn_status sn_unary(int op, sn_tensor a, sn_tensor* out); /* see unary_op in ops.cpp */
sn_status sn_reduce(int op, sn_tensor a, int dim, int keepdim, sn_tensor* out); /* 0 sum 1 mean 2 max 3 argmax 4 logsumexp 5 softmax 6 log_softmax */
sn_status sn_sum_all(sn_tensor a, sn_tensor* out);
sn_status sn_all_finite(sn_tensor a, int* out);
sn_status sn_matmul_out(sn_tensor a, int ta, sn_tensor b, int tb, sn_tensor out, double beta); /* out = beta*out + a@b */
sn_status sn_add_(sn_tensor a, sn_tensor b, double alpha);
sn_status sn_mul_scalar_(sn_tensor a, double s);
sn_status sn_mul_(sn_tensor a, sn_tensor b);
sn_status sn_zero_(sn_tensor a);
sn_status sn_fill_(sn_tensor a, double v);
sn_status sn_copy_(sn_tensor dst, sn_tensor src);
sn_status sn_to(sn_tensor a, int dtype, int device, sn_tensor* out);
sn_status sn_reshape(sn_tensor a, const int64_t* shape, int ndim, sn_tensor* out);
sn_status sn_transpose(sn_tensor a, int d0, int d1, sn_tensor* out);
sn_status sn_narrow(sn_tensor a, int dim, int64_t start, int64_t len, sn_tensor* out);
sn_status sn_split(sn_tensor a, const int64_t* sizes, int n, int dim, sn_tensor* out); /* n views */
sn_status sn_cat(sn_tensor* ts, int n, int dim, sn_tensor* out);
sn_status sn_index_select(sn_tensor a, int dim, sn_tensor index, sn_tensor* out);
sn_status sn_index_add_(sn_tensor a, int dim, sn_tensor index, sn_tensor src);
sn_status sn_embedding_backward(sn_tensor grad, sn_tensor ids, int64_t vocab, sn_tensor* out);
sn_status sn_gather(sn_tensor a, int dim, sn_tensor index, sn_tensor* out);
sn_status sn_masked_fill(sn_tensor a, sn_tensor mask, double v, sn_tensor* out);
sn_status sn_sdpa(sn_tensor q, sn_tensor k, sn_tensor v, sn_tensor mask_or_null, int causal, double scale, int gqa, sn_tensor* out);

/* linear.cpp: x [rows, k], w [n, k]; in fp32 on the CPU no row depends on the others · differentiable */
sn_status sn_linear(sn_tensor x, sn_tensor w, sn_tensor bias_or_null, sn_tensor* out);
/* w [n, k] -> panels [ceil(n/SN_PANEL), k, SN_PANEL] of its dtype, the form that generation reads fastest */
sn_status sn_pack_rows(sn_tensor w, sn_tensor* out);
/* sn_linear with packed weights, fp32, bf16 or int8 with scale [n] fp32; x in fp32 on the CPU · same bits as sn_linear; no gradient */
sn_status sn_linear_packed(sn_tensor x, sn_tensor panels, int64_t n, sn_tensor scale_or_null, sn_tensor bias_or_null, sn_tensor* out);
/* w [m, k] -> int8 [m, k], each row as multiples of scale = max|w|/127 [m], rounded to nearest; a row of zeros has scale 0 */
sn_status sn_quantize_rows(sn_tensor w, sn_tensor* q, sn_tensor* scale);

/* autograd.cpp */
void sn_set_grad_enabled(int on);
int sn_grad_enabled(void);
sn_status sn_requires_grad_(sn_tensor t, int on);
/* grads of the sum of outs·grad_outs; grad_outs may be NULL for scalars; unused inputs give NULL handles if allowed */
sn_status sn_grad(sn_tensor* outs, sn_tensor* grad_outs, int nout, sn_tensor* ins, int nin, int allow_unused, sn_tensor* grads);

/* optim.cpp: lists of equal length; all tensors of one dtype */
sn_status sn_adamw_(sn_tensor* params, sn_tensor* grads, sn_tensor* m, sn_tensor* v, int n, int64_t step, double lr,
                    double beta1, double beta2, double eps, double weight_decay);
sn_status sn_foreach_copy_(sn_tensor* dst, sn_tensor* src, int n);
sn_status sn_sum_squares(sn_tensor* ts, int n, double* out); /* in double, in order */
sn_status sn_foreach_mul_(sn_tensor* ts, int n, double s);

/* layers.cpp, attention.cpp: fused CPU kernels, differentiable where named so; plain ATen on other devices and dtypes */
sn_status sn_rms_norm(sn_tensor x, sn_tensor w, double eps, sn_tensor* out);             /* x [n, c] · differentiable */
/* x += y, and rms_norm of that · no gradient */
sn_status sn_add_rms_norm(sn_tensor x, sn_tensor y, sn_tensor w, double eps, sn_tensor* out);
sn_status sn_rope(sn_tensor x, sn_tensor cos, sn_tensor sin, sn_tensor pos, sn_tensor* out); /* x [n, h, d], tables [p, d/2] · differentiable in x */
sn_status sn_swiglu(sn_tensor gate_up, sn_tensor* out);                                   /* [n, 2f] -> [n, f] · differentiable */
/* causal attention of packed sequences; q [n, h, d], k and v [n, k, d], cu: nseq+1 offsets · differentiable */
sn_status sn_packed_attention(sn_tensor q, sn_tensor k, sn_tensor v, const int64_t* cu, int nseq, double scale, sn_tensor* out);
/* The paged cache. keys [blocks, k, d, B], values [blocks, k, B, d]; the rows' sequences have block lists in table
 * [nseq, width]. append writes k, v [n, k, d] at (seq, pos); with rotary tables [p, d/2] it rotates k on the way and gives the
 * rotated q [n, h, d], else (q, cos, sin null) it gives nothing. attention lets q row i see positions 0..pos[i]. */
sn_status sn_cache_append(sn_tensor keys, sn_tensor values, sn_tensor q_or_null, sn_tensor k, sn_tensor v, sn_tensor cos_or_null,
                          sn_tensor sin_or_null, const int32_t* table, int width, int nseq, const int32_t* seq, const int32_t* pos,
                          sn_tensor* out);
sn_status sn_cache_attention(sn_tensor q, sn_tensor keys, sn_tensor values, const int32_t* table, int width, int nseq,
                             const int32_t* seq, const int32_t* pos, double scale, sn_tensor* out);
sn_status sn_cache_copy_block(sn_tensor keys, sn_tensor values, int32_t from, int32_t to);

/* The policy π = softmax(logits / T) over an allowed set. sets: bit masks, words 64-bit words each; set 0 of a row means
 * everything. offset: first vocabulary id of this rank's columns. */
typedef struct {
  const uint64_t* bits; /* [count, words] */
  int words, count;
} sn_sets;
/* stats [n, 4] f64: max z, sum exp(z-max), sum exp(z-max)*z, z of target (NaN if another rank holds it, -Inf if it is not
 * allowed); z = logit/T. A row without an allowed id has sum 0. On meta: 0, 1, 0, 0, so log-prob and entropy 0. */
sn_status sn_logit_stats(sn_tensor logits, int64_t offset, const float* temperature, const int32_t* set, sn_sets sets,
                         const int32_t* target, double* stats);
/* logits become d loss/d logits; coefficients per row: dlp for log π(target), dent for the entropy */
sn_status sn_logit_grad_(sn_tensor logits, int64_t offset, const float* temperature, const int32_t* set, sn_sets sets,
                         const int32_t* target, const double* lse, const double* entropy, const double* dlp, const double* dent);
typedef struct {
  float temperature; /* <= 0: greedy */
  float top_p;       /* 1: off */
  float min_p;       /* 0: off */
  int32_t top_k;     /* 0: off */
  int32_t set;
  double u; /* uniform in [0, 1) */
} sn_draw;
enum { SN_NOTHING_ALLOWED = -1, SN_NOT_FINITE = -2 };
typedef struct {
  int32_t id;      /* negative: this row cannot be drawn from, for one of the two reasons above; the others are */
  float log_prob;  /* log π(id): over the allowed set, not renormalised by top-k, top-p or min-p */
  float kept;      /* mass of π that the truncation kept */
} sn_drawn;
sn_status sn_sample(sn_tensor logits, const sn_draw* draws, sn_sets sets, sn_drawn* out);

/* comm.cpp: Gloo over a TCP store */
typedef void* sn_comm;
sn_status sn_store_open(const char* host, int port, int is_server, int world, int64_t timeout_ms, void** store, int* bound_port);
void sn_store_close(void* store);
sn_status sn_gloo_open(void* store, const char* name, int rank, int size, int64_t timeout_ms, sn_comm* out);
void sn_comm_close(sn_comm c);
sn_status sn_all_reduce_(sn_comm c, sn_tensor t, int op); /* 0 sum 1 max */
sn_status sn_all_gather(sn_comm c, sn_tensor t, int size, sn_tensor* out); /* [size, ...] */
sn_status sn_reduce_scatter(sn_comm c, sn_tensor t, int size, sn_tensor* out); /* first dimension divided by size */
sn_status sn_broadcast_(sn_comm c, sn_tensor t, int root);
sn_status sn_barrier(sn_comm c);

/* cuda.cpp: the CUDA plugin (cuda/plugin.h), loaded on demand. Opening twice does nothing. */
sn_status sn_cuda_open(const char* path_or_null); /* null: libseadnative_cuda.so beside this library */
int sn_cuda_devices(void);                        /* 0 before it is open */
typedef struct {
  int64_t allocated, allocated_peak, reserved; /* bytes of this process' tensors, and of its cache of blocks */
  int64_t available, total;                    /* bytes of the device */
} sn_memory;
sn_status sn_cuda_memory(int device, sn_memory* out);

#ifdef __cplusplus
}
#endif
#endif
