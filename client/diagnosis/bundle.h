// A whole diagnosis in one file, without the job's secrets, so that it can be sent to others.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/diagnosis/archive.h"
#include "client/diagnosis/case_file.h"
#include "client/diagnosis/redaction.h"

namespace muster::client {

// Parts that only the bundle needs.
struct BundleParts {
  std::string report;                                  // as on the screen
  std::string metrics;                                 // metrics.csv
  std::vector<std::pair<uint32_t, std::string>> logs;  // by rank
};
// The bundle's files with their secrets hidden; the last one counts what was hidden. `redaction`
// has learned from the job.
absl::StatusOr<std::vector<ArchiveFile>> BundleFiles(const CaseFile& file, BundleParts parts,
                                                     Redaction* redaction);
// Mode 0600, through a temporary file beside it. ALREADY_EXISTS unless `replace`.
absl::Status WriteBundle(const std::string& path, const std::string& bytes, bool replace);

}  // namespace muster::client
