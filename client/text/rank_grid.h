// What `jobctl top` shows: a row per rank with the device it runs on, or a row per node. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/terminal/listing.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

// The devices of a rank as one: sums, the mean of utilizations, the highest temperature.
struct DeviceUse {
  std::string names;  // "gpu:0" or "gpu:0,1"
  std::optional<double> utilization;
  std::optional<uint64_t> memory_used;
  std::optional<uint64_t> memory_total;
  std::optional<double> power_watts;
  std::optional<double> temperature;
  std::string throttled_by;
};

struct RankRow {
  uint32_t rank = 0;
  std::string node;
  std::optional<v1::RankSample> sample;  // absent: none has arrived
  DeviceUse device;
  int64_t age_ms = 0;  // of the sample
  bool is_slowest = false;
};

enum class GridOrder { kRank, kCpu, kMemory, kStep };

// All ranks of the job's newest attempt, in order of rank.
std::vector<RankRow> RankRows(const v1::JobRecord& record,
                              const std::vector<v1::SampleBucket>& newest);
// The busiest, the largest or the slowest first.
void SortRows(GridOrder order, std::vector<RankRow>* rows);
Listing RankListing(const std::vector<RankRow>& rows);

// A row per node: how much of it its jobs use.
Listing NodeListing(const v1::ListNodesResponse& nodes,
                    const std::vector<v1::SampleBucket>& newest);

// A table that fits the width: the least important columns are dropped first.
absl::StatusOr<std::string> GridText(const Listing& listing, const Terminal& terminal);

}  // namespace muster::client
