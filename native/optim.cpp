// Optimizer steps over lists of tensors.
#include <ATen/ops/_fused_adamw.h>
#include <c10/core/GradMode.h>

#include "guard.h"

using namespace sead;

// The fused kernel walks the memory of the four flat, and trusts that they agree.
static void check_adamw(const std::vector<at::Tensor>* lists[4]) {
  static const char* names[] = {"parameter", "gradient", "first moment", "second moment"};
  for (size_t i = 0; i < lists[0]->size(); i++) {
    const auto& p = (*lists[0])[i];
    for (int j = 0; j < 4; j++) {
      const auto& t = (*lists[j])[i];
      TORCH_CHECK(t.sizes() == p.sizes() && t.scalar_type() == (*lists[0])[0].scalar_type() && t.is_contiguous(), "adamw: ", names[j], " ", i,
                  " is a ", t.is_contiguous() ? "contiguous " : "non-contiguous ", t.scalar_type(), " ", t.sizes(), ", its parameter ", p.scalar_type(),
                  " ", p.sizes(), ": all must be contiguous, of one shape and one dtype");
    }
  }
}

extern "C" {

sn_status sn_adamw_(sn_tensor* params, sn_tensor* grads, sn_tensor* m, sn_tensor* v, int n, int64_t step, double lr,
                    double beta1, double beta2, double eps, double weight_decay) {
  GUARD({
    c10::NoGradGuard off;
    auto p = list(params, n);
    auto g = list(grads, n);
    auto em = list(m, n);
    auto ev = list(v, n);
    const std::vector<at::Tensor>* lists[] = {&p, &g, &em, &ev};
    check_adamw(lists);
    if (n == 0 || p[0].is_meta()) return sn_status{SN_OK, nullptr};  // no Meta kernel: in place, shapes do not change
    std::vector<at::Tensor> steps;
    for (int i = 0; i < n; i++)
      steps.push_back(at::full({}, static_cast<double>(step), p[i].options().dtype(at::kFloat)));
    at::_fused_adamw_(p, g, em, ev, {}, steps, lr, beta1, beta2, weight_decay, eps, /*amsgrad=*/false, /*maximize=*/false);
  })
}

sn_status sn_foreach_copy_(sn_tensor* dst, sn_tensor* src, int n) {
  GUARD({
    c10::NoGradGuard off;
    at::_foreach_copy_(list(dst, n), list(src, n));
  })
}

sn_status sn_sum_squares(sn_tensor* ts, int n, double* out) {
  GUARD({
    c10::NoGradGuard off;
    double s = 0;
    for (int i = 0; i < n; i++) {
      if (T(ts[i]).is_meta()) continue;
      auto nrm = at::linalg_vector_norm(T(ts[i]), 2, std::nullopt, false, at::kDouble).item<double>();
      s += nrm * nrm;
    }
    *out = s;
  })
}

sn_status sn_foreach_mul_(sn_tensor* ts, int n, double s) {
  GUARD({
    c10::NoGradGuard off;
    at::_foreach_mul_(list(ts, n), s);
  })
}

}  // extern "C"
