// Which parameters step together, and their state.
//
// A group's plan lists its parameters by device, dtype and implementation, with their state, ready
// for the kernels. It is kept across steps and rebuilt only when the set of parameters with
// gradients, the options or the devices change: a normal step fills in the gradients and calls one
// kernel. Gradients are released after each step, so that zero_grad frees their memory.
#pragma once

#include <ATen/ScalarOps.h>
#include <torch/optim.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "muster/optim/optimizers.h"

namespace muster::internal {

// The number of steps of a parameter. Parameters that always step together share one, so counting
// is one operation instead of one per parameter. The fused kernels read it on their device (tensor:
// float32, 0-d); otherwise value is used, and tensor is undefined.
struct StepCount {
  at::Tensor tensor;
  double value = 0;
};

// tensor times number, as in Python. LibTorch's mul_(Scalar) would first round the number to
// bfloat16 if the tensor is bfloat16.
inline at::Tensor& multiply_(at::Tensor& tensor, double number) {
  return tensor.mul_(at::native::wrapped_scalar_tensor(number));
}

struct StepScaling {
  std::optional<at::Tensor> grad_scale, found_inf;

  StepScaling on(at::Device device) const;
};

struct StepBucket {
  Implementation implementation = Implementation::plain;  // never automatic
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;
  bool first_step = false;  // of all its parameters; only if steps are not counted

  // One entry per parameter; complex ones as pairs of real numbers.
  std::vector<size_t> indices;  // in the group
  std::vector<at::Tensor> parameters, gradients;
  std::vector<std::vector<at::Tensor>> fields;  // [field]: empty, or one per parameter
  std::vector<StepCount*> counts;
  std::vector<at::Tensor> steps;  // for the kernel

  std::vector<StepCount*> distinct_counts;
  std::vector<at::Tensor> distinct_steps;

  // Buffers for numbers that differ by parameter, kept across steps.
  std::vector<at::Scalar> numbers, more_numbers;

  void count_on_device(const StepScaling& scaling, bool after_kernel);
  void count_on_host();
};

class StepPlan {
 public:
  void step(Optimizer& optimizer, const StepScaling& scaling);
  bool all_fused(Optimizer& optimizer);
  TensorMap state_of(const Optimizer& optimizer, const at::Tensor& parameter);
  void set_state(Optimizer& optimizer, const at::Tensor& parameter, const TensorMap& state);
  // Whether set_state takes a state of these tensors.
  static bool takes(const Optimizer& optimizer, size_t group,
                    const std::vector<std::string>& names);

 private:
  static bool is_required(const Optimizer& optimizer, size_t group, size_t field);
  // A parameter's group and its place there.
  using Place = std::pair<size_t, size_t>;

  // A parameter's state. Unused fields are undefined.
  struct Slot {
    std::vector<at::Tensor> fields;
    std::shared_ptr<StepCount> count;
    bool started = false;
  };
  // What determines a parameter's bucket.
  struct Sight {
    enum Form : uint8_t { absent, block, scattered, sparse };
    Form form = absent;
    const c10::TensorImpl* parameter = nullptr;
    at::ScalarType dtype = at::kFloat;
    at::Device device = at::kCPU;
    bool operator==(const Sight& other) const = default;
  };
  struct GroupPlan {
    bool stale = true;
    Implementation requested = Implementation::automatic;
    std::vector<bool> used_fields;
    std::vector<Sight> sights;
    std::vector<std::pair<uint32_t, uint32_t>> places;  // bucket and position in it
    std::vector<StepBucket> buckets;
  };

  // Throws std::invalid_argument for a tensor that is not a parameter of the optimizer.
  size_t group_of(const Optimizer& optimizer, const at::Tensor& parameter);
  static Sight look_at(const at::Tensor& parameter);
  // Brings the plan up to date and fills in the gradients.
  void look(Optimizer& optimizer, size_t group);
  bool is_current(Optimizer& optimizer, size_t group);
  void rebuild(Optimizer& optimizer, size_t group);
  StepBucket& bucket_for(GroupPlan& plan, const Sight& sight, Implementation implementation,
                         bool first_step, size_t fields);
  Slot& slot_for(Optimizer& optimizer, size_t group, const at::Tensor& parameter);
  void share_counts(StepBucket& bucket, const std::vector<at::Tensor>& parameters);
  void release_gradients();
  void run(Optimizer& optimizer, size_t group, StepBucket& bucket, const StepScaling& scaling,
           bool unscaled);

  std::vector<GroupPlan> groups_;
  // As last looked up: groups may change.
  std::unordered_map<const c10::TensorImpl*, Place> places_;
  std::unordered_map<c10::TensorImpl*, Slot> slots_;
  // Counts of states set since the last step, so that equal ones are shared again.
  std::map<double, std::shared_ptr<StepCount>> loaded_counts_;
};

}  // namespace muster::internal
