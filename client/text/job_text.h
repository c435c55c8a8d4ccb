// A job record for people (`show`), and for programs as JSON and YAML. All of them hide secret
// values. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/terminal/terminal.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

// `assessment` is empty if the coordinator is older.
std::string ShowJob(const v1::GetJobResponse& response, const v1::Assessment& assessment,
                    const Terminal& terminal);
// The jobctl command line that would start the same job.
std::string ReproduceLine(const v1::JobSpec& spec);
// Values of variables whose names look secret become "(hidden)".
void HideSecrets(v1::JobSpec* spec);

// Like RecordText of record_json.h, with the assessment under the key "assessment".
absl::StatusOr<std::string> RecordJson(const v1::JobRecord& record,
                                       const v1::Assessment& assessment);
absl::StatusOr<std::string> RecordYaml(const v1::JobRecord& record,
                                       const v1::Assessment& assessment);

}  // namespace muster::client
