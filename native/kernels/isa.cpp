// Compiled once per instruction set, with -DSEAD_ISA=avx2 -DSEAD_VW=8 and the like (see CMakeLists.txt).
#include "attention.h"
#include "kernels.h"
#include "layers.h"
#include "linear.h"
#include "logits.h"
#include "packed.h"

#define SEAD_CAT_(a, b) a##b
#define SEAD_CAT(a, b) SEAD_CAT_(a, b)
#define SEAD_STR_(a) #a
#define SEAD_STR(a) SEAD_STR_(a)

namespace sead {
namespace isa = SEAD_ISA;
extern const Kernels SEAD_CAT(kernels_, SEAD_ISA);
const Kernels SEAD_CAT(kernels_, SEAD_ISA) = {
    SEAD_STR(SEAD_ISA),   SEAD_VW,             isa::rms_norm,      isa::add_rms_norm, isa::rms_norm_backward, isa::rope,
    isa::swiglu,          isa::swiglu_backward, isa::cache_attention, isa::linear,            isa::packed_forward, isa::packed_backward,
    isa::packed_work,     isa::logit_stats,     isa::logit_probs,     isa::logit_grad,
};
}  // namespace sead
