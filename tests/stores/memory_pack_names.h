// Which packs there are, in memory: what several coordinators of a test agree on, one of which leads.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/stores/pack_names.h"

namespace muster::coordinator {

struct MemoryPacks {
  std::map<PackLane, LanePacks> lanes;
  std::set<std::string> doomed;
  uint64_t leader = 0;  // the term of the one that may change it
};

class MemoryPackNames : public PackNames {
 public:
  MemoryPackNames(std::shared_ptr<MemoryPacks> state, std::string prefix, uint64_t leader)
      : state_(std::move(state)), prefix_(std::move(prefix)), leader_(leader) {}

  absl::StatusOr<std::vector<LanePacks>> Lanes(PackKind kind, uint64_t job,
                                               std::optional<uint32_t> attempt) const override {
    std::vector<LanePacks> found;
    for (const auto& [lane, packs] : state_->lanes) {
      if (lane.kind == kind && lane.job == job && lane.attempt == attempt.value_or(lane.attempt))
        found.push_back(packs);
    }
    return found;
  }
  absl::StatusOr<std::optional<LanePacks>> Find(const PackLane& lane) const override {
    const auto found = state_->lanes.find(lane);
    if (found == state_->lanes.end()) return std::nullopt;
    return found->second;
  }
  absl::StatusOr<uint64_t> BytesOf(PackKind kind, uint64_t job) const override {
    uint64_t bytes = 0;
    for (const auto& [lane, packs] : state_->lanes) {
      if (lane.kind == kind && lane.job == job) bytes += packs.bytes;
    }
    return bytes;
  }
  absl::StatusOr<std::vector<uint64_t>> Jobs(PackKind kind) const override {
    std::set<uint64_t> jobs;
    for (const auto& [lane, packs] : state_->lanes) {
      if (lane.kind == kind) jobs.insert(lane.job);
    }
    return std::vector<uint64_t>(jobs.begin(), jobs.end());
  }
  absl::Status Record(const std::vector<RecordedPack>& packs) override {
    if (leader_ != state_->leader) return absl::AbortedError("another one leads");
    for (const RecordedPack& pack : packs) {
      LanePacks& lane = state_->lanes[pack.lane];
      const bool is_first = lane.runs.empty();
      lane.lane = pack.lane;
      if (is_first || lane.runs.back().term != pack.term)
        lane.runs.push_back({.term = pack.term, .first = 1, .last = 0});
      PackRun& run = lane.runs.back();
      if (pack.number <= run.last) continue;
      if (pack.number != run.last + 1) return absl::AbortedError("a number is missing");
      run.last = pack.number;
      lane.bytes += pack.bytes;
      lane.first_rank = is_first ? pack.first_rank : std::min(lane.first_rank, pack.first_rank);
      lane.last_rank = std::max(lane.last_rank, pack.last_rank);
      if (!pack.note.empty()) lane.note = pack.note;
    }
    return absl::OkStatus();
  }
  absl::Status Merge(const PackMerge& merge) override {
    if (leader_ != state_->leader) return absl::AbortedError("another one leads");
    LanePacks& lane = state_->lanes.at(merge.lane);
    for (const MergedPack& merged : merge.merged) {
      Doom(merge.lane, merged.name);
      std::erase_if(lane.merged, [&](const MergedPack& each) { return each.name == merged.name; });
    }
    for (const PackRun& taken : merge.runs) {
      for (PackRun& run : lane.runs) {
        if (run.term != taken.term) continue;
        for (uint64_t number = taken.first; number <= taken.last; ++number)
          Doom(merge.lane, PackName(run.term, number));
        run.first = taken.last + 1;
      }
    }
    lane.bytes -= std::min(lane.bytes, merge.freed);
    lane.merged.push_back(merge.made);
    std::sort(lane.merged.begin(), lane.merged.end(),
              [](const MergedPack& a, const MergedPack& b) { return a.place < b.place; });
    return absl::OkStatus();
  }
  absl::StatusOr<bool> DoomSome(PackKind, uint64_t) override { return false; }
  absl::StatusOr<std::vector<std::string>> Unknown(const std::vector<std::string>&) const override {
    return std::vector<std::string>();
  }

 private:
  void Doom(const PackLane& lane, const std::string& name) {
    state_->doomed.insert(PackKey(prefix_, lane, name));
  }
  const std::shared_ptr<MemoryPacks> state_;
  const std::string prefix_;
  const uint64_t leader_;
};

}  // namespace muster::coordinator
