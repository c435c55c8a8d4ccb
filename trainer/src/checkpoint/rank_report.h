// What each rank tells rank 0 of the file that it wrote, and how the manifest comes out of it. No
// torch.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "checkpoint/checkpoint_directory.h"

namespace muster {

struct RankReport {
  int node = 0;
  std::optional<ShardFile> file;  // none: this rank had nothing to write
  // Of the tensors of the whole run what this file holds: one piece of each.
  std::map<std::string, ManifestTensor> tensors;
};

std::string format_report(const RankReport& report);

// `with_tensors` false: leaves them out, which spares the ranks that write no manifest the work.
RankReport parse_report(const std::string& text, bool with_tensors);

// Adds what the rank wrote. Throws CheckpointError naming the tensor and both files when another
// rank gave it another shape or dtype.
void add_tensors(Manifest& manifest, const RankReport& report);

// Throws CheckpointError naming the first tensor whose pieces leave a hole or overlap.
void require_whole_tensors(const Manifest& manifest);

}  // namespace muster
