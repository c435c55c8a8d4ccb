// Samples on disk: SampleBuckets as records in small files that are only appended to. A stream
// (job, attempt, node) has files of each tier, each begun at a time of the coordinator's clock, so
// that the oldest can be deleted whole. Damaged records are skipped.
//
//   samples/JOB/ATTEMPT/NODE/TIER-BEGUN     TIER: 1s, 10s, 1min; BEGUN: Unix ms, 15 digits
//   record: magic "MSP1" | u32 payload bytes | u32 CRC-32C of payload | payload (v1::SampleBucket)
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "coordinator/stores/paths.h"
#include "coordinator/stores/sample_store.h"

namespace muster::coordinator {

inline constexpr uint64_t kSampleFileBytes = 4 << 20;  // then the next file begins
inline constexpr size_t kSampleRecordBytesMax = 32 << 20;
inline constexpr uint64_t kSampleBytesReadMax = kSampleFileBytes + kSampleRecordBytesMax;
inline constexpr size_t kSampleTierCount = std::size(kSampleTiers);

// The folder of a node: any name becomes a safe one, and different names stay different.
std::string SampleNodeFolder(std::string_view node);

struct SampleFile {
  uint64_t job = 0;
  uint32_t attempt = 0;
  std::string node_folder;
  size_t tier = 0;  // index into kSampleTiers
  int64_t begun_ms = 0;

  auto operator<=>(const SampleFile&) const = default;
  // Below the data directory.
  std::string Path() const;
};
// `path` is below the data directory; nullopt if it is not a sample file.
std::optional<SampleFile> ParseSamplePath(const std::string& path);

// The time for which samples are appended to one file.
int64_t SampleFileSpanMs(size_t tier);

std::string SampleRecord(const v1::SampleBucket& bucket);

struct SampleScan {
  uint64_t records = 0;
  uint64_t damaged_bytes = 0;  // between sound records
  uint64_t rest_bytes = 0;     // after the last one: damaged, or being written
};
// Calls `record` for each sound record; it returns false to stop.
SampleScan ScanSamples(std::string_view bytes,
                       const std::function<bool(const v1::SampleBucket&)>& record);

// Counts all files and their damage. Damage in samples is not reported as a finding, because no one
// can repair it: it is skipped, and disappears when its file expires.
struct SampleTotals {
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t damaged_bytes = 0;
};
absl::Status CheckSamples(const Paths& paths, SampleTotals* totals);

}  // namespace muster::coordinator
