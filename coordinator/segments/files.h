// The files of one stream's segments: BASE.seg, then BASE.d/OFFSET.seg, named by the stream offset
// where each begins. Most streams are short: one file, no directory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/segments/window.h"

namespace muster::coordinator {

class SegmentFiles final : public StreamSegments {
 public:
  explicit SegmentFiles(std::string base) : base_(std::move(base)) {}

  const std::string& Base() const { return base_; }
  std::string At(uint64_t first_offset) const;
  std::string DirectoryOfOthers() const { return base_ + ".d"; }
  absl::StatusOr<std::vector<uint64_t>> List() const override;
  std::unique_ptr<SegmentBytes> Open(uint64_t first_offset) const override;

 private:
  std::string base_;
};

std::unique_ptr<SegmentBytes> OpenSegmentFile(std::string path);

// For SegmentHead::salt.
absl::StatusOr<uint64_t> RandomSalt();

// The BASE of the entry `name` in a stream's directory: "rank-3.stdout" for "rank-3.stdout.seg" and
// for "rank-3.stdout.d"; empty if the entry does not belong to a segment.
std::string_view SegmentBase(std::string_view name);

}  // namespace muster::coordinator
