// Reads what a person names as a run: a job, TensorBoard event files or a CSV file.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compare/run.h"
#include "muster/v1/job.pb.h"

namespace muster::client {

class Connection;

// A job's name can hold no slash. A word with one is a path, and so is one that ends with ".csv" or
// contains "tfevents".
bool IsPathOfRun(std::string_view word);

// JC1005 for a path that cannot be read; NOT_FOUND if nothing is there.
absl::Status UnreadableRun(const absl::Status& error);
// JC1543 for content that is not metrics.
absl::Status NotMetrics(std::string_view what, std::string_view fix);

// Errors of all three: JC1543, JC1544; of files: JC1005.
absl::StatusOr<compare::ComparedRun> ReadCsvRun(const std::string& path,
                                                const compare::WantedMetrics& wanted,
                                                compare::PointBudget* budget);
// `path`: an event file, or a directory that is searched for them. Files of one directory are one
// run, in the order of their names. Metrics of a directory below `path` get its name as a prefix,
// unless all scalars are in one directory.
absl::StatusOr<compare::ComparedRun> ReadEventRun(const std::string& path,
                                                  const compare::WantedMetrics& wanted,
                                                  compare::PointBudget* budget);
// Fills `record`, too. Errors: the coordinator's, too.
absl::StatusOr<compare::ComparedRun> ReadJobRun(Connection& connection, const std::string& job,
                                                const compare::WantedMetrics& wanted,
                                                compare::PointBudget* budget,
                                                v1::JobRecord* record);

}  // namespace muster::client
