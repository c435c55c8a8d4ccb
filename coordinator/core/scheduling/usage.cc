#include "coordinator/core/scheduling/usage.h"

#include <algorithm>

namespace muster::coordinator {

Usage Usage::Of(const SchedulingState& state) {
  Usage usage;
  usage.state_ = &state;
  return usage;
}

DevicesByKind& Usage::Change(const std::string& node) {
  const auto [at, fresh] = changed_.try_emplace(node);
  const Node* known = fresh && state_ != nullptr ? FindNode(*state_, node) : nullptr;
  if (known != nullptr) at->second = known->used;
  return at->second;
}

void Usage::Add(const v1::Attempt& attempt) {
  for (const v1::NodePart& part : attempt.parts()) {
    if (!part.ended()) Take(Change(part.node()), part);
  }
}

void Usage::Add(const std::string& kind, const std::vector<Share>& shares) {
  for (const Share& share : shares) {
    std::vector<uint32_t>& used = Change(share.node)[kind];
    used.insert(used.end(), share.devices.begin(), share.devices.end());
  }
}

void Usage::Remove(const v1::Attempt& attempt) {
  for (const v1::NodePart& part : attempt.parts()) {
    if (!part.ended()) GiveBack(Change(part.node()), part);
  }
}

const DevicesByKind& Usage::Walk::At(const std::string& name, const Node& node) {
  static const DevicesByKind kNone;
  while (at_ != usage_.changed_.end() && at_->first < name) ++at_;
  if (at_ != usage_.changed_.end() && at_->first == name) return at_->second;
  return usage_.state_ == nullptr ? kNone : node.used;
}

const std::vector<uint32_t>& OfKind(const DevicesByKind& devices, const std::string& kind) {
  static const std::vector<uint32_t> kNone;
  const auto of_kind = devices.find(kind);
  return of_kind == devices.end() ? kNone : of_kind->second;
}

bool HasDeviceOf(const v1::Attempt& attempt, const std::string& kind,
                 const std::vector<Share>& shares) {
  return std::any_of(attempt.parts().begin(), attempt.parts().end(), [&](const v1::NodePart& part) {
    if (part.ended() || part.device_kind() != kind) return false;
    return std::any_of(shares.begin(), shares.end(), [&](const Share& share) {
      return share.node == part.node() &&
             std::find_first_of(share.devices.begin(), share.devices.end(),
                                part.device_indexes().begin(),
                                part.device_indexes().end()) != share.devices.end();
    });
  });
}

}  // namespace muster::coordinator
