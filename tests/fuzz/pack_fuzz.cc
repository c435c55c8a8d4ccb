// Packs as an object store gives them back: their directories, and the segments of which merges make others. Directories
// have a checksum, so the entries of some are made of the input.
#include <cstring>

#include "coordinator/packs/format.h"
#include "coordinator/packs/merge.h"
#include "fuzz/harness.h"

namespace {

using namespace muster::coordinator;

const PackLane kLane{.kind = PackKind::kLogs, .job = 1, .attempt = 0, .node = "n1"};

void CheckDirectory(const PackDirectory& directory) {
  FUZZ_EXPECT(directory.segments.size() <= kPackSegmentsMax);
  for (const PackSegment& entry : directory.segments) {
    FUZZ_EXPECT(entry.first_offset <= entry.end_offset);
    FUZZ_EXPECT(entry.position <= UINT64_MAX - entry.length);
  }
  (void)StreamEnds(directory);
}

// An entry for each 16 bytes; the rest are the segments.
std::string PackOf(const uint8_t* data, size_t size) {
  PackDirectory directory{.lane = kLane, .segments = {}};
  const size_t entries = size == 0 ? 0 : data[0] % 5;
  size_t at = 1;
  for (size_t i = 0; i < entries && at + 16 <= size; ++i, at += 16) {
    uint16_t numbers[8];
    std::memcpy(numbers, data + at, sizeof numbers);
    directory.segments.push_back({.stream = {numbers[0] % 3, numbers[1] % 2},
                                  .first_offset = numbers[2],
                                  .end_offset = numbers[3],
                                  .end_count = numbers[4],
                                  .position = numbers[5],
                                  .length = numbers[6],
                                  .ended = numbers[7] % 2 == 1});
  }
  const std::string bodies(reinterpret_cast<const char*>(data) + std::min(at, size),
                           size - std::min(at, size));
  return EncodePackDirectory(directory) + bodies;
}

void CheckMerged(const std::vector<std::string>& packs,
                 const std::map<PackStream, StreamEnd>* trimmed) {
  const auto merged = MergePacks(kLane, packs, trimmed);
  if (!merged.ok()) return;
  const auto bytes = PackDirectoryBytesOf(*merged);
  FUZZ_EXPECT(bytes.ok() && *bytes <= merged->size());
  const auto directory = DecodePackDirectory(std::string_view(*merged).substr(0, *bytes));
  FUZZ_EXPECT(directory.ok());
  CheckDirectory(*directory);
  for (const PackSegment& entry : directory->segments)
    FUZZ_EXPECT(entry.length <= merged->size() && entry.position <= merged->size() - entry.length);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto directory = DecodePackDirectory(bytes);
  if (directory.ok()) CheckDirectory(*directory);
  const std::string made = PackOf(data, size), half = PackOf(data, size / 2);
  const std::vector<std::string> packs = {std::string(bytes), made, half};
  CheckMerged(packs, nullptr);
  const std::map<PackStream, StreamEnd> ends = {{{0, 0}, {.offset = 77, .count = 1}}};
  CheckMerged(packs, &ends);
  return 0;
}
