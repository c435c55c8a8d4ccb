// The curves of one job, read from its stored metrics and continued when there are more. They show
// only the effective history: steps that were repeated after a restart replace the earlier ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/curves/curve.h"
#include "coordinator/curves/followed_line.h"
#include "coordinator/stores/metric_store.h"

namespace muster::coordinator {

// Which points of a job are read.
struct CurveChoice {
  std::set<std::string> names;   // empty: all
  std::optional<uint32_t> rank;  // none: for each metric, the lowest rank that logged it
  StepRange steps;
  size_t buckets = 0;  // kept for each curve, if all of them have room
};

// One thread at a time; the metric store outlives it.
class JobCurves {
 public:
  static constexpr size_t kCurvesMax = 256;
  static constexpr size_t kBucketsMax = 100'000;  // of all curves, some 100 bytes each

  JobCurves(const MetricStore& metrics, uint64_t job, CurveChoice choice);

  // Reads one more piece. False: all stored metrics have been read. UNAVAILABLE: call again later.
  absl::StatusOr<bool> ReadOn();

  struct RankCurve {
    uint32_t rank = 0;
    CurveBuckets buckets;
  };
  const std::map<std::string, RankCurve>& curves() const { return curves_; }  // by name
  bool left_out() const { return left_out_; }  // there are more metrics than it keeps
  size_t Size() const;                         // buckets, of all curves

 private:
  // Starts over for that many attempts; with one attempt nothing is replaced.
  void StartOver(size_t attempts);
  // Whether the line that was learned still holds for the batch. It may not, because points arrive
  // late: from another rank, or with an earlier step than all before.
  bool Holds(const v1::MetricBatch& batch) const;
  size_t BucketsEach() const;
  void Add(const v1::MetricBatch& batch);
  CurveBuckets* CurveOf(const std::string& name, uint32_t rank);

  const MetricStore& metrics_;
  const uint64_t job_;
  const CurveChoice choice_;
  std::unique_ptr<MetricReader> reader_;
  FollowedLine line_;
  size_t line_attempts_ = 1;  // the number of attempts for which the line was learned
  bool is_learning_ = false;  // the line, before the points are read again
  int starts_ = 0;            // since everything was last read
  std::map<std::string, RankCurve> curves_;
  bool left_out_ = false;
};

}  // namespace muster::coordinator
