// Shared by the scenarios of collectives_ranks: checks on one rank, and tensors that differ between
// ranks.
#pragma once

#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "collectives/collectives.h"
#include "muster/base/errors.h"

namespace muster {

using Tensors = std::vector<at::Tensor>;
using Scenarios = std::map<std::string, std::function<void(Collectives&)>>;

Scenarios value_scenarios();  // value_scenarios.cc: each function on edge cases

// Set by CHECK_THAT.
inline bool failed = false;

#define CHECK_THAT(condition)                                                   \
  do {                                                                          \
    if (!(condition)) {                                                         \
      muster::failed = true;                                                    \
      std::printf("%s:%d does not hold: %s\n", __FILE__, __LINE__, #condition); \
    }                                                                           \
  } while (false)

// The message of f's exception.
template <typename F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const CommunicationError& error) {
    return std::string("CommunicationError ") + error.what();
  } catch (const std::invalid_argument& error) {
    return std::string("invalid_argument ") + error.what();
  }
  return "no error";
}

inline bool same(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         at::equal(a.cpu(), b.cpu());
}

// What MUSTER_DEVICE names, or the CPU.
inline at::Device place = at::kCPU;

// A tensor that differs on every rank.
inline at::Tensor of_rank(int rank, at::IntArrayRef shape, at::ScalarType type = at::kFloat) {
  const int64_t count = c10::multiply_integers(shape);
  return (at::arange(count, at::kFloat).remainder(100) * 0.5 + rank).view(shape).to(type).to(place);
}

}  // namespace muster
