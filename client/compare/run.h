// One side of a comparison: the wanted metrics of a job, of TensorBoard event files or of a CSV
// file, in memory. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/compare/series.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

class Connection;

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
  static constexpr size_t kPointsMax = 20'000'000;  // 320 MB
  absl::Status Take();                              // JC1544

 private:
  size_t taken_ = 0;
};

struct ComparedRun {
  std::string name;                      // a job's name, or the path as it was given
  std::vector<std::string> names;        // of all its metrics, sorted
  std::map<std::string, Series> series;  // the wanted ones, finished
  std::optional<v1::JobRecord> job;

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
};

// A job's name can hold no slash. A word with one is a path, and so is one that ends with ".csv" or
// contains "tfevents".
bool IsPathOfRun(std::string_view word);

// JC1005 for a path that cannot be read; NOT_FOUND if nothing is there.
absl::Status UnreadableRun(const absl::Status& error);
// JC1543 for content that is not metrics.
absl::Status NotMetrics(std::string_view what, std::string_view fix);

// Errors of all three: JC1543, JC1544; of files: JC1005.
absl::StatusOr<ComparedRun> ReadCsvRun(const std::string& path, const WantedMetrics& wanted,
                                       PointBudget* budget);
// `path`: an event file, or a directory that is searched for them. Files of one directory are one
// run, in the order of their names. Metrics of a directory below `path` get its name as a prefix,
// unless all scalars are in one directory.
absl::StatusOr<ComparedRun> ReadEventRun(const std::string& path, const WantedMetrics& wanted,
                                         PointBudget* budget);
// Errors: the coordinator's, too.
absl::StatusOr<ComparedRun> ReadJobRun(Connection& connection, const std::string& job,
                                       const WantedMetrics& wanted, PointBudget* budget);

}  // namespace muster::client
