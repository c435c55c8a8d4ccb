#include <tuple>

#include "coordinator/local/sample_store.h"

namespace muster::coordinator {

SampleFile SampleFileTable::FileOf(const std::string& node_folder, size_t tier, const Age& age) {
  const auto& [begun_ms, job, attempt] = age;
  return {job, attempt, node_folder, tier, begun_ms};
}

void SampleFileTable::Add(const SampleFile& file, uint64_t bytes) {
  OfNode& node = nodes_[file.node_folder];
  node.bytes += bytes;
  node.tiers[file.tier][{file.begun_ms, file.job, file.attempt}] += bytes;
}

void SampleFileTable::Remove(const SampleFile& file) {
  const auto node = nodes_.find(file.node_folder);
  if (node == nodes_.end()) return;
  auto& tier = node->second.tiers[file.tier];
  const auto found = tier.find({file.begun_ms, file.job, file.attempt});
  if (found == tier.end()) return;
  node->second.bytes -= found->second;
  tier.erase(found);
  if (node->second.bytes == 0) nodes_.erase(node);
}

std::vector<SampleFile> SampleFileTable::Expired(int64_t now_ms) const {
  std::vector<SampleFile> expired;
  for (const auto& [folder, node] : nodes_) {
    for (size_t tier = 0; tier < kSampleTierCount; ++tier) {
      const int64_t oldest_ms = now_ms - kSampleTiers[tier].kept_ms - SampleFileSpanMs(tier);
      for (const auto& [age, bytes] : node.tiers[tier]) {
        if (std::get<0>(age) >= oldest_ms) break;
        expired.push_back(FileOf(folder, tier, age));
      }
    }
  }
  return expired;
}

std::vector<SampleFile> SampleFileTable::Surplus(const std::string& node_folder,
                                                 uint64_t max_bytes) const {
  std::vector<SampleFile> surplus;
  const auto node = nodes_.find(node_folder);
  if (node == nodes_.end()) return surplus;
  std::array<std::map<Age, uint64_t>::const_iterator, kSampleTierCount> next;
  for (size_t tier = 0; tier < kSampleTierCount; ++tier) {
    next[tier] = node->second.tiers[tier].begin();
  }
  for (uint64_t bytes = node->second.bytes; bytes > max_bytes;) {
    size_t oldest = kSampleTierCount;
    for (size_t tier = 0; tier < kSampleTierCount; ++tier) {
      if (next[tier] == node->second.tiers[tier].end()) continue;
      if (oldest == kSampleTierCount || next[tier]->first < next[oldest]->first) oldest = tier;
    }
    if (oldest == kSampleTierCount) break;
    surplus.push_back(FileOf(node_folder, oldest, next[oldest]->first));
    bytes -= next[oldest]->second;
    ++next[oldest];
  }
  return surplus;
}

std::vector<SampleFile> SampleFileTable::OfJob(uint64_t job) const {
  std::vector<SampleFile> files;
  for (const auto& [folder, node] : nodes_) {
    for (size_t tier = 0; tier < kSampleTierCount; ++tier) {
      for (const auto& [age, bytes] : node.tiers[tier]) {
        if (std::get<1>(age) == job) files.push_back(FileOf(folder, tier, age));
      }
    }
  }
  return files;
}

}  // namespace muster::coordinator
