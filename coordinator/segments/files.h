// The files of one stream's segments: BASE.seg, then BASE.d/OFFSET.seg, named by the stream offset
// where each begins. Most streams are short: one file, no directory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::coordinator {

class SegmentFiles {
 public:
  explicit SegmentFiles(std::string base) : base_(std::move(base)) {}

  const std::string& Base() const { return base_; }
  std::string At(uint64_t first_offset) const;
  std::string DirectoryOfOthers() const { return base_ + ".d"; }
  // The offsets where the existing segments begin, in order.
  absl::StatusOr<std::vector<uint64_t>> List() const;

 private:
  std::string base_;
};

// For SegmentHead::salt.
absl::StatusOr<uint64_t> RandomSalt();

// Of the entry `name` in a stream's directory: "rank-3.stdout" of "rank-3.stdout.seg" and of
// "rank-3.stdout.d"; empty if it is not a segment's.
std::string_view SegmentBase(std::string_view name);

}  // namespace muster::coordinator
