#include "exported/block_step.h"

#include "muster/memory/activation_checkpoint.h"

namespace muster {

// Tensors go through the checkpoint's node. Numbers are kept: they are the same in the recomputation.
void BlockStep::run(Frame& frame) const {
  if (!frame.context.recomputes_blocks) return run_steps(*steps, frame);
  std::vector<c10::IValue> kept(slots_);
  for (const uint32_t slot : weights) kept[slot] = frame.values[slot];
  std::vector<at::Tensor> tensors;
  for (const uint32_t slot : inputs) {
    if (frame.values[slot].isTensor()) {
      tensors.push_back(frame.values[slot].toTensor());
    } else {
      kept[slot] = frame.values[slot];
    }
  }
  // Filled by the first run only.
  auto numbers = std::make_shared<std::vector<c10::IValue>>(outputs.size());
  std::vector<uint32_t> tensor_inputs;
  for (const uint32_t slot : inputs) {
    if (frame.values[slot].isTensor()) tensor_inputs.push_back(slot);
  }
  activation_checkpoint_detail::Part part =
      [steps = steps, outputs = outputs, context = frame.context, kept = std::move(kept),
       tensor_inputs, wanted = std::weak_ptr(numbers)](const std::vector<at::Tensor>& values) {
        Frame inner{context, kept};
        for (size_t i = 0; i < tensor_inputs.size(); ++i)
          inner.values[tensor_inputs[i]] = values[i];
        run_steps(*steps, inner);
        const auto numbers = wanted.lock();
        std::vector<at::Tensor> made;
        for (size_t i = 0; i < outputs.size(); ++i) {
          c10::IValue& value = inner.values[outputs[i]];
          if (value.isTensor()) {
            made.push_back(value.toTensor());
          } else if (numbers != nullptr) {
            (*numbers)[i] = std::move(value);
          }
        }
        return made;
      };
  const std::vector<at::Tensor> made =
      activation_checkpoint_detail::run_part(std::move(part), tensors, {});
  size_t next = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool is_number = !(*numbers)[i].isNone();
    frame.values[outputs[i]] = is_number ? (*numbers)[i] : c10::IValue(made.at(next++));
  }
}

}  // namespace muster
