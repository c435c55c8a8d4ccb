// The curves of one job, read from its stored metrics, and on from there when there are more. Only
// the effective history: what a restart did again counts in its place.
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
  std::optional<uint32_t> rank;  // none: of each metric, the lowest rank that logged it
  StepRange steps;
  size_t buckets = 0;  // kept of each curve, if all of them have room
};

// One thread at a time; the metric store outlives it.
class JobCurves {
 public:
  static constexpr size_t kCurvesMax = 256;
  static constexpr size_t kBucketsMax = 100'000;  // of all curves, some 100 bytes each

  JobCurves(const MetricStore& metrics, uint64_t job, CurveChoice choice);

  // Reads a piece of what it has not read. False: all that is stored has been read. UNAVAILABLE:
  // ask again later.
  absl::StatusOr<bool> ReadOn();

  struct RankCurve {
    uint32_t rank = 0;
    CurveBuckets buckets;
  };
  const std::map<std::string, RankCurve>& curves() const { return curves_; }  // by name
  bool left_out() const { return left_out_; }  // there are more metrics than it keeps
  size_t Size() const;                         // buckets, of all curves

 private:
  // For that many attempts; one replaces nothing.
  void StartOver(size_t attempts);
  // Whether the line that was learned still holds for the batch. Points arrive late: of another
  // rank, or with an earlier step than all before.
  bool Holds(const v1::MetricBatch& batch) const;
  size_t BucketsEach() const;
  void Add(const v1::MetricBatch& batch);
  CurveBuckets* CurveOf(const std::string& name, uint32_t rank);

  const MetricStore& metrics_;
  const uint64_t job_;
  const CurveChoice choice_;
  std::unique_ptr<MetricReader> reader_;
  FollowedLine line_;
  size_t line_attempts_ = 1;  // that the line is of
  bool is_learning_ = false;  // the line, before the points are read again
  int starts_ = 0;            // since all was read
  std::map<std::string, RankCurve> curves_;
  bool left_out_ = false;
};

}  // namespace muster::coordinator
