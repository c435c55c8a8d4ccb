// See generator.h.
#include "generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Utils.h>

#include <array>
#include <cstring>

namespace remote {
namespace {

// splitmix64: neighboring draws have unrelated seeds.
uint64_t mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

}  // namespace

DeviceGenerator::DeviceGenerator(c10::DeviceIndex index)
    : GeneratorImpl(c10::Device(kType, index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {
}

void DeviceGenerator::set_current_seed(uint64_t seed) {
  seed_ = seed;
  draws_ = 0;
}

uint64_t DeviceGenerator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return seed_;
}

c10::intrusive_ptr<c10::TensorImpl> DeviceGenerator::get_state() const {
  at::Tensor state = at::empty({2 * sizeof(uint64_t)}, at::kByte);
  const std::array<uint64_t, 2> numbers = {seed_, draws_};
  std::memcpy(state.mutable_data_ptr(), numbers.data(), sizeof(numbers));
  return state.getIntrusivePtr();
}

void DeviceGenerator::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  std::array<uint64_t, 2> numbers{};
  TORCH_CHECK(state.numel() == sizeof(numbers), "a state of this device's generator has ",
              sizeof(numbers), " bytes, not ", state.numel());
  std::memcpy(numbers.data(), state.data(), sizeof(numbers));
  seed_ = numbers[0];
  draws_ = numbers[1];
}

at::Generator DeviceGenerator::next_draw() {
  return at::make_generator<at::CPUGeneratorImpl>(mixed(seed_ ^ mixed(draws_++)));
}

DeviceGenerator* DeviceGenerator::clone_impl() const {
  auto* const copy = new DeviceGenerator(device().index());
  copy->seed_ = seed_;
  copy->draws_ = draws_;
  return copy;
}

const at::Generator& default_generator(c10::DeviceIndex index) {
  static const auto* const all = [] {
    auto* const made = new std::array<at::Generator, kDevices>;
    for (c10::DeviceIndex device = 0; device < kDevices; ++device) {
      made->at(static_cast<size_t>(device)) = at::make_generator<DeviceGenerator>(device);
    }
    return made;
  }();
  return all->at(static_cast<size_t>(index));
}

}  // namespace remote
