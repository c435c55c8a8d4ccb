// Which devices count as in use while the scheduler searches: what live attempts hold, changed by what it would start, hold
// or end. Only the nodes that it changes are copied.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coordinator/core/state/state.h"

namespace muster::coordinator {

// One node's share of a gang.
struct Share {
  std::string node;
  uint32_t ranks = 0;
  std::vector<uint32_t> devices;  // ranks × count_per_rank indexes, ascending, chosen lowest first
};

class Usage {
 public:
  // Nothing is in use.
  Usage() = default;
  // What live attempts hold. The state must outlive it.
  static Usage Of(const SchedulingState& state);

  void Add(const v1::Attempt& attempt);
  void Add(const std::string& kind, const std::vector<Share>& shares);
  void Remove(const v1::Attempt& attempt);

  // For nodes in the order of their names.
  class Walk {
   public:
    explicit Walk(const Usage& usage) : usage_(usage), at_(usage.changed_.begin()) {}
    const DevicesByKind& At(const std::string& name, const Node& node);

   private:
    const Usage& usage_;
    std::map<std::string, DevicesByKind>::const_iterator at_;
  };

 private:
  DevicesByKind& Change(const std::string& node);

  const SchedulingState* state_ = nullptr;
  std::map<std::string, DevicesByKind> changed_;
};

const std::vector<uint32_t>& OfKind(const DevicesByKind& devices, const std::string& kind);
// Calls use(device) for each that is not in use.
template <typename Use>
void ForEachFree(const std::vector<uint32_t>& devices, const std::vector<uint32_t>& used, Use use) {
  for (const uint32_t device : devices) {
    if (std::find(used.begin(), used.end(), device) == used.end()) use(device);
  }
}
// Whether the attempt has a device of the shares, which are of this kind.
bool HasDeviceOf(const v1::Attempt& attempt, const std::string& kind,
                 const std::vector<Share>& shares);

}  // namespace muster::coordinator
