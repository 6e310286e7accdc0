// Shape functions for the meta device, see functions.h.
#include <torch/csrc/autograd/custom_function.h>

#include "functions.h"

namespace sead {

struct OnlyShape : torch::autograd::Function<OnlyShape> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const std::vector<int64_t>& shape, at::TensorList inputs) {
    ctx->save_for_backward(inputs.vec());
    return at::empty(shape, inputs[0].options());
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, const torch::autograd::variable_list&) {
    torch::autograd::variable_list grads{at::Tensor()};  // of the shape
    for (const auto& t : ctx->get_saved_variables()) grads.push_back(t.is_floating_point() ? at::empty_like(t) : at::Tensor());
    return grads;
  }
};

at::Tensor only_shape(std::vector<int64_t> shape, at::TensorList inputs) { return OnlyShape::apply(shape, inputs); }

}  // namespace sead
