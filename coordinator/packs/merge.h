// Packs of a lane become one: small ones a larger one, so that a long job has few; the oldest ones of a job that has more than
// its quota a mark of what was there. On a pool's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/packs/format.h"
#include "coordinator/packs/pack_reader.h"
#include "coordinator/stores/objects.h"
#include "coordinator/stores/pack_names.h"

namespace muster::coordinator {

// Where packs go, and as whose.
struct PackPlace {
  Objects& objects;
  PackNames& names;
  std::string prefix;
  PackTerm term;
};

// limit: packs: a merged one gets no more packs when it has these
inline constexpr size_t kMergedBytesMax = 32 << 20;
// limit: packs: of each stream, at the least, a quota leaves its last bytes
inline constexpr uint64_t kKeptOfStreamBytes = 64 << 10;

// The packs' bytes, in the lane's order, as one pack. What is damaged, or not a pack, stays a gap. Pure, but for random
// salts. `trimmed`: the streams' ends in the lane; then only marks of what was removed are left, and of streams that
// end here kKeptOfStreamBytes.
absl::StatusOr<std::string> MergePacks(const PackLane& lane, const std::vector<std::string>& packs,
                                       const std::map<PackStream, StreamEnd>* trimmed = nullptr);

// Merges the oldest `many` packs, or as many as `bytes_max` allows, into one named `name`; or merged ones into a larger one,
// if there are enough. How many packs that were not merged before it has; nullopt: there is nothing to do.
absl::StatusOr<std::optional<size_t>> MergeOldest(const PackPlace& place, const PackReader& reader,
                                                  const PackLane& lane, size_t many,
                                                  size_t bytes_max, const std::string& name);

// Trims the oldest packs of the job's output, of the lane that has most. How many bytes were removed; 0: no more can be. The
// newest pack of each lane stays.
absl::StatusOr<uint64_t> TrimOldest(const PackPlace& place, const PackReader& reader, uint64_t job,
                                    uint64_t bytes, const std::string& name);

}  // namespace muster::coordinator
