// Random numbers of the device: a seed and a count of the draws, from which the numbers of a draw
// follow. So a draw is fixed when it is queued, whenever it runs.
#pragma once

#include <ATen/core/Generator.h>

#include "streams.h"

namespace remote {

class DeviceGenerator final : public c10::GeneratorImpl {
 public:
  explicit DeviceGenerator(c10::DeviceIndex index);

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override { draws_ = offset; }
  uint64_t get_offset() const override { return draws_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  // The CPU's generator for the next draw. The caller holds mutex_.
  at::Generator next_draw();

 private:
  DeviceGenerator* clone_impl() const override;

  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t draws_ = 0;
};

const at::Generator& default_generator(c10::DeviceIndex index);

}  // namespace remote
