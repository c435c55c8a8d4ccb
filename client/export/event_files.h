// A job's points as TensorBoard event files: one for the lowest rank that logged, in DIRECTORY/JOB,
// one for each other rank, in DIRECTORY/JOB/rank-N. All appear together at the end. One thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/export/point_text.h"
#include "client/machine/output_file.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

class EventFiles {
 public:
  static constexpr size_t kRanksMax = 256;  // open files

  // `ranks`: those whose points will come, in order. Errors: JC1545 and JC1601; JC1004 for too many
  // ranks.
  static absl::StatusOr<EventFiles> Create(const std::string& directory,
                                           const v1::JobRecord& record,
                                           const std::vector<uint32_t>& ranks, bool replace);
  absl::Status Add(const ExportedPoint& point);
  absl::Status Commit();

 private:
  std::map<uint32_t, OutputFile> files_;  // by rank
  std::string record_;                    // reused
};

}  // namespace muster::client
