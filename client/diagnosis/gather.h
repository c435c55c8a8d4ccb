// Reads a case file from the coordinator. Data that cannot be read leaves a gap with its reason,
// because a diagnosis is needed most when something is broken. Blocking.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/diagnosis/case_file.h"

namespace muster::client {

class Connection;

struct GatherOptions {
  int64_t stack_wait_ms = 6'000;
};
// Errors: only if there is no such job, or no coordinator.
absl::StatusOr<CaseFile> Gather(Connection& connection, const std::string& job,
                                const GatherOptions& options);
// The end of these ranks' output in the diagnosed attempt.
void GatherTails(Connection& connection, const std::vector<uint32_t>& ranks, CaseFile* file);

// For the bundle. `bytes_max`: of one rank's output, from its end.
std::string TailOf(Connection& connection, const CaseFile& file, uint32_t rank, size_t bytes_max,
                   std::vector<std::string>* gaps);
std::string MetricRows(Connection& connection, const CaseFile& file,
                       std::vector<std::string>* gaps);

}  // namespace muster::client
