// Finds processes that older workers left on this host, by the marks in processes' environments and
// in cgroup names, regardless of any state directory. Any thread that may block; accesses no state.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kernel/kill_ladder.h"

namespace muster::worker {

// A mark's parts. See NewAttemptMark.
struct AttemptMark {
  uint64_t job = 0;
  uint32_t attempt = 0;
  std::string tag;   // of the node
  std::string text;  // the whole mark
};

// Accepts only what NewAttemptMark generates: a process may carry any text, and the mark names a
// directory.
std::optional<AttemptMark> ParseMark(const std::string& text);

// Kills every process with a wanted mark until none is found, for at most `timeout_ms` per mark.
// Returns the marks that were found. UNAVAILABLE names the processes that survived SIGKILL.
absl::StatusOr<std::vector<AttemptMark>> EndMarked(
    const common::CgroupHost& cgroups, const std::function<bool(const AttemptMark&)>& wanted,
    int timeout_ms);

}  // namespace muster::worker
