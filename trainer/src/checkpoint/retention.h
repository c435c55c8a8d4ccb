// Applies a CheckpointPolicy to a checkpoint directory. One thread owns it. No torch.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "muster/checkpoint/checkpoint_options.h"

namespace muster {

class Retention {
 public:
  // Throws std::invalid_argument if a number in the policy is negative.
  explicit Retention(CheckpointPolicy policy);

  // Removes what the policy does not keep, after `saved_step` (which is always kept) was published.
  // Each checkpoint is renamed before its files are removed. Throws CheckpointError.
  void apply(const std::string& directory, int64_t saved_step, int64_t removable_up_to);

 private:
  CheckpointPolicy policy_;
  std::map<int64_t, std::map<std::string, double>> metrics_;  // of steps read earlier
};

}  // namespace muster
