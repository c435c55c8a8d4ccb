// JSON as the worker uses it: lines of the trainer socket (docs/protocol.md) and torch's error
// files. No input is trusted. Pure, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::worker {

inline constexpr size_t kPointsPerBatchMax = 10'000;
inline constexpr size_t kMetricNameBytesMax = 256;
inline constexpr size_t kDiagnosisBytesMax = 64 * 1024;

struct TrainerLine {
  enum class Kind { kHello, kMetrics, kProgress, kCheckpoint, kDropped, kDiagnosis, kUnknown };
  Kind kind = Kind::kUnknown;
  // hello
  uint32_t version = 0;
  uint64_t job = 0;
  uint32_t attempt = 0;
  uint32_t rank = 0;
  std::string token;  // empty: it sent none
  // metrics
  v1::MetricBatch batch;  // seq and points only
  std::string left_out;   // why points of the batch were skipped, if any; the batch still counts
  // progress, checkpoint
  int64_t step = 0;
  uint64_t total = 0;
  // dropped
  uint64_t dropped = 0;
  // diagnosis: the request's number and the record, a JSON object on one line
  uint64_t number = 0;
  std::string record;
};

// INVALID_ARGUMENT says what is wrong with the line. Unknown types become kUnknown.
absl::StatusOr<TrainerLine> ParseTrainerLine(std::string_view line);

// Lines for a trainer, each with its newline.
std::string WelcomeLine(uint64_t metrics_seq);
std::string AckLine(uint64_t metrics_seq);
std::string StopLine(const std::string& reason, uint32_t grace_ms);
std::string CommittedLine(int64_t step);
std::string CheckpointRequestLine();
std::string DiagnoseLine(uint64_t number, const std::string& reason);
std::string ErrorLine(std::string_view message);

// The message in a torch elastic error file, of either form; empty if there is none. At most
// kErrorMessageBytesMax.
std::string ErrorFileMessage(const std::string& content);

}  // namespace muster::worker
