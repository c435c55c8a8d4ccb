// What each rank reports to rank 0 about the file it wrote, and how rank 0 builds the manifest from
// it. No torch.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "checkpoint/checkpoint_directory.h"

namespace muster {

struct RankReport {
  int node = 0;
  std::optional<ShardFile> file;  // none: this rank had nothing to write
  // What this file holds of the tensors of the whole run: one piece of each.
  std::map<std::string, ManifestTensor> tensors;
};

std::string format_report(const RankReport& report);

// `with_tensors` false skips the tensors, which only the rank that writes the manifest needs.
RankReport parse_report(const std::string& text, bool with_tensors);

// Adds what the rank wrote. Throws CheckpointError naming the tensor and both files if another rank
// reported a different shape or dtype.
void add_tensors(Manifest& manifest, const RankReport& report);

// Throws CheckpointError naming the first tensor whose pieces leave a gap or overlap.
void require_whole_tensors(const Manifest& manifest);

}  // namespace muster
