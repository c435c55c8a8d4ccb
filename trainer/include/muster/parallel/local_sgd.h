// Local SGD: ranks train independently for K steps, then average their parameters.
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
// All-reduces the parameters every K steps instead of the gradients at each step: for slow
// networks. Averages parameters, but neither buffers nor optimizer state. Source: Accelerate's
// local_sgd.py; Stich, "Local SGD Converges Fast and Communicates Little" (2018).
#pragma once

#include "muster/parallel/data_parallel.h"

namespace muster {

struct LocalSGDOptions {
  int64_t steps = 8;    // between two averages; all ranks must take the same number of steps
  bool enabled = true;  // false: gradients are averaged in each backward, as without LocalSGD
};

// While it lives, the model's backward() reduces nothing.
class LocalSGD {
 public:
  template <typename Holder>
  explicit LocalSGD(PreparedModel<Holder>& model, const LocalSGDOptions& options = {})
      : LocalSGD(model.data_parallel(), options) {}
  // Throws std::invalid_argument if steps is below 1.
  explicit LocalSGD(DataParallel& model, const LocalSGDOptions& options = {});
  // Calls finish() unless the scope is left by an exception.
  ~LocalSGD() noexcept(false);
  LocalSGD(const LocalSGD&) = delete;
  LocalSGD& operator=(const LocalSGD&) = delete;

  // Call after each optimizer step; each K-th call averages the parameters over all ranks and is
  // collective.
  void step();
  // Averages a last time and lets backward() reduce gradients again. Collective; a second call does
  // nothing.
  void finish();

 private:
  void average() const;

  DataParallel model_;
  LocalSGDOptions options_;
  int64_t steps_done_ = 0;
  int exceptions_;
  bool synchronizing_before_;
  int process_;  // a forked child does not join its parent's ranks
  bool open_ = true;
};

}  // namespace muster
