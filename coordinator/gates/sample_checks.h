// Checks whether a worker's samples can be true, before any number in them is used or stored.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "muster/v1/job.pb.h"
#include "muster/v1/sample.pb.h"

namespace muster::coordinator {

inline constexpr int kSampledRanksMax = 4'096;  // of a batch; the worker measures fewer

// A node's part of an attempt.
struct SampledPart {
  uint32_t first_rank = 0;
  uint32_t ranks = 0;
  std::string device_kind;
  std::vector<uint32_t> device_indexes;  // ascending
};
SampledPart SampledPartOf(const v1::NodePart& part);

absl::Status CheckSampleBatch(const v1::SampleBatch& batch, const SampledPart& part);

}  // namespace muster::coordinator
