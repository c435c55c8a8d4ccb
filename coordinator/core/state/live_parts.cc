#include "coordinator/core/state/live_parts.h"

namespace muster::coordinator {

void PartCounts::Add(const v1::NodePart& part, int change) {
  const bool has_all_exits = static_cast<uint32_t>(part.exits_size()) >= part.local_world_size();
  parts += change;
  if (part.ready()) ready += change;
  if (part.launched()) launched += change;
  if (part.ended()) ended += change;
  if (!part.launched() && !part.ended()) awaited += change;
  if (part.ended() && (!part.failure().empty() || !has_all_exits)) failed += change;
}

void LiveParts::Add(uint64_t job, const v1::Attempt& attempt) {
  PartCounts& counts = counts_[job] = {};
  for (int place = 0; place < attempt.parts_size(); ++place) {
    counts.Add(attempt.parts(place));
    on_nodes_[attempt.parts(place).node()].emplace(job, place);
  }
}

void LiveParts::Remove(uint64_t job, const v1::Attempt& attempt) {
  counts_.erase(job);
  for (const v1::NodePart& part : attempt.parts()) {
    const auto on_node = on_nodes_.find(part.node());
    if (on_node == on_nodes_.end()) continue;
    on_node->second.erase(job);
    if (on_node->second.empty()) on_nodes_.erase(on_node);
  }
}

const LiveParts::OnNode& LiveParts::On(const std::string& node) const {
  static const OnNode kNone;
  const auto on_node = on_nodes_.find(node);
  return on_node == on_nodes_.end() ? kNone : on_node->second;
}

int LiveParts::Find(uint64_t job, const std::string& node) const {
  const OnNode& on_node = On(node);
  const auto place = on_node.find(job);
  return place == on_node.end() ? -1 : place->second;
}

PartCounts* LiveParts::Counts(uint64_t job) {
  const auto counts = counts_.find(job);
  return counts == counts_.end() ? nullptr : &counts->second;
}

const PartCounts* LiveParts::Counts(uint64_t job) const {
  const auto counts = counts_.find(job);
  return counts == counts_.end() ? nullptr : &counts->second;
}

}  // namespace muster::coordinator
