// Seeds and states of LibTorch's default random-number generators. Training thread.
#pragma once

#include <torch/types.h>

#include <cstdint>

namespace muster {

struct SeedOptions {
  // Added to the seed; use the rank to get different numbers on each rank (Accelerate's
  // device_specific).
  uint64_t offset = 0;
  // Also makes LibTorch use deterministic algorithms, and throw if it has none
  // (at::globalContext().setDeterministicAlgorithms), for the whole process.
  bool deterministic = false;
};

// Seeds the generators of the CPU and of every device of this process. Source:
// accelerate/utils/random.py, set_seed.
void set_seed(uint64_t seed, const SeedOptions& options = {});

// The state of the device's default generator as a uint8 CPU tensor: the same bytes as Python's
// torch.get_rng_state() and torch.cuda.get_rng_state().
at::Tensor random_state(at::Device device);

// Throws DeviceError if the bytes are not a state of such a generator.
void set_random_state(at::Device device, const at::Tensor& state);

}  // namespace muster
