// Applies a CheckpointPolicy to a checkpoint directory. One thread owns it. No torch.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "muster/checkpoint/checkpoint_options.h"

namespace muster {

class Retention {
 public:
  // Throws std::invalid_argument when a number of the policy is negative.
  explicit Retention(CheckpointPolicy policy);

  // Removes what the policy lets go, after `saved_step` (which always stays) has appeared. Each
  // checkpoint leaves its final name in one rename before its files go. Throws CheckpointError.
  void apply(const std::string& directory, int64_t saved_step, int64_t removable_up_to);

 private:
  CheckpointPolicy policy_;
  std::map<int64_t, std::map<std::string, double>> metrics_;  // of steps that were read before
};

}  // namespace muster
