// One side of a comparison: the wanted metrics of a run, in memory; the code that reads them adds the points.
// One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "compare/series.h"

namespace muster::compare {

struct WantedMetrics {
  std::vector<std::string> keys;  // names, or patterns with * and ?; none: losses
  int64_t rank = -1;              // -1: of each metric, the lowest rank that logged it
};
// Metrics that define epochs are always wanted.
bool IsWanted(std::string_view name, const WantedMetrics& wanted);
// `name` is `key`, or matches it as a pattern.
bool MatchesKey(std::string_view name, const std::string& key);

// Limits the points that all runs together hold in memory.
class PointBudget {
 public:
  PointBudget(size_t most, std::string fix) : most_(most), fix_(std::move(fix)) {}
  absl::Status Take();  // JC1544
  void Return(size_t points) { taken_ -= points; }

 private:
  const size_t most_;
  const std::string fix_;  // the fix to suggest when there are more
  size_t taken_ = 0;
};

struct ComparedRun {
  std::string name;                      // a job's name, or the path as it was given
  std::vector<std::string> names;        // of all its metrics, sorted
  std::map<std::string, Series> series;  // the wanted ones, finished

  const Series* Find(const std::string& key) const;
};

class RunBuilder {
 public:
  RunBuilder(const WantedMetrics& wanted, PointBudget* budget) : wanted_(wanted), budget_(budget) {}
  absl::Status Add(std::string_view name, int64_t rank, int64_t step, double value);
  // A restart: points of `name` that were added before are replaced from `step` on.
  void ReplaceFrom(std::string_view name, int64_t step);
  // A metric of the run, wanted or not.
  void Know(std::string_view name);
  // The memory of all metrics' names and their bookkeeping, without points.
  size_t NameBytes() const { return name_bytes_; }
  ComparedRun Finish(std::string name);

 private:
  struct Metric {
    bool wanted = false;
    int64_t rank = INT64_MAX;
    Series series;
  };
  Metric& Find(std::string_view name);

  const WantedMetrics& wanted_;
  PointBudget* const budget_;
  std::map<std::string, Metric, std::less<>> metrics_;
  size_t name_bytes_ = 0;
};

}  // namespace muster::compare
