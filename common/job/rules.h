// The numbers of a job spec: the allowed range of each, and its default. Validate() checks them,
// job files and flags are parsed against them, the daemons apply them. Times are milliseconds.
#pragma once

#include <cstdint>

namespace muster::job {

inline constexpr int64_t kSecondMs = 1'000;
inline constexpr int64_t kDayMs = 86'400 * kSecondMs;

// Both ends are included. In a spec, 0 always means "the default" and is never out of range.
struct Range {
  int64_t least;
  int64_t most;
};
inline constexpr Range kPriority{-1'000'000, 1'000'000};
inline constexpr Range kRestarts{0, 10'000};
inline constexpr Range kNodeLossRestarts{1, 10'000};
inline constexpr Range kGraceMs{1, kDayMs};
inline constexpr Range kNoticeMs{0, kDayMs};
inline constexpr Range kSignal{1, 64};
inline constexpr Range kStopAfterMs{kSecondMs, kDayMs};
inline constexpr Range kMaxDurationMs{kSecondMs, 365 * kDayMs};
inline constexpr Range kEstimateMs = kMaxDurationMs;
inline constexpr Range kCheckpointsKept{1, 10'000};
inline constexpr uint32_t kDevicesPerRankMax = 1'024;
// For one rank. The kernel accepts no less than 1 ms of processor time per period of 100 ms.
inline constexpr Range kCpuMillis{10, 1'024'000};
inline constexpr Range kMemoryBytes{int64_t{4} << 20, int64_t{1} << 50};
inline constexpr size_t kMetricBytesMax = 256;  // of a metric's name; workers reject longer ones
// Of a job's output. A smaller quota could drop the lines that explain a failure.
inline constexpr Range kLogsKeepBytes{int64_t{1} << 20, int64_t{1} << 50};

// Of a job's code, encoded; as tree/manifest.h.
inline constexpr uint64_t kManifestBytesMax = 320 << 20;
inline constexpr int kOutputsMax = 64;
inline constexpr int kMountsMax = 64;
inline constexpr uint64_t kShmBytesMax = uint64_t{1} << 40;

inline constexpr uint32_t kDefaultNodeLossRestarts = 10;
inline constexpr uint32_t kDefaultGraceMs = 30'000;
inline constexpr uint32_t kDefaultStopAfterMs = 600'000;
inline constexpr uint32_t kDefaultCheckpointsKept = 3;

}  // namespace muster::job
