// Local SGD: ranks train on their own for K steps, then average their parameters.
//
//   muster::LocalSGD local_sgd(model, {.steps = 8});
//   for (auto& batch : loader) {
//     accelerator.backward(loss_of(model, batch));
//     optimizer.step();
//     optimizer.zero_grad();
//     local_sgd.step();
//   }
//   local_sgd.finish();
//
// One reduction of the parameters every K steps in place of one of the gradients in each: for slow
// networks. Averages parameters, neither buffers nor the optimizer's state. Source: Accelerate's
// local_sgd.py; Stich, "Local SGD Converges Fast and Communicates Little" (2018).
#pragma once

#include "muster/parallel/data_parallel.h"

namespace muster {

struct LocalSGDOptions {
  int64_t steps = 8;    // between two averages; all ranks must make the same number of steps
  bool enabled = true;  // false: gradients are averaged in each backward, as without LocalSGD
};

// While it lives, backward() of the model reduces nothing. The model must outlive it.
class LocalSGD {
 public:
  template <typename Holder>
  explicit LocalSGD(PreparedModel<Holder>& model, const LocalSGDOptions& options = {})
      : LocalSGD(model.data_parallel(), options) {}
  // Throws std::invalid_argument when steps is below 1.
  explicit LocalSGD(DataParallel& model, const LocalSGDOptions& options = {});
  // finish(), unless an exception is leaving the scope.
  ~LocalSGD() noexcept(false);
  LocalSGD(const LocalSGD&) = delete;
  LocalSGD& operator=(const LocalSGD&) = delete;

  // After each optimizer step: the K-th one averages the parameters over all ranks. Collective
  // then.
  void step();
  // Averages once more and lets backward() reduce gradients again. Collective; a second call does
  // nothing.
  void finish();

 private:
  void average() const;

  DataParallel& model_;
  LocalSGDOptions options_;
  int64_t steps_done_ = 0;
  int exceptions_;
  bool synchronizing_before_;
  bool open_ = true;
};

}  // namespace muster
