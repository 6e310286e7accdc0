// Grad mode and gradients. The layer-wise backward is Go's: it calls grad once per half layer.
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "guard.h"

using namespace sead;

extern "C" {

void sn_set_grad_enabled(int on) { c10::GradMode::set_enabled(on != 0); }
int sn_grad_enabled(void) { return c10::GradMode::is_enabled(); }
sn_status sn_requires_grad_(sn_tensor t, int on) { GUARD(T(t).requires_grad_(on != 0)) }

sn_status sn_grad(sn_tensor* outs, sn_tensor* grad_outs, int nout, sn_tensor* ins, int nin, int allow_unused, sn_tensor* grads) {
  GUARD({
    auto go = grad_outs ? list(grad_outs, nout) : std::vector<at::Tensor>{};
    auto g = torch::autograd::grad(list(outs, nout), list(ins, nin), go, /*retain_graph=*/false,
                                   /*create_graph=*/false, allow_unused != 0);
    for (int i = 0; i < nin; i++) grads[i] = g[i].defined() ? give(std::move(g[i])) : nullptr;
  })
}

}  // extern "C"
