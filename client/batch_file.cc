#include "client/batch_file.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "client/launch_script.h"
#include "common/status.h"
#include "common/strings.h"

namespace muster::client {

bool IsSbatchScript(std::string_view content) {
  if (!content.starts_with("#!")) return false;
  for (const absl::string_view raw : absl::StrSplit(common::ToAbsl(content), '\n')) {
    const absl::string_view line = absl::StripAsciiWhitespace(raw);
    if (absl::StartsWith(line, "#SBATCH ") || absl::StartsWith(line, "#SBATCH\t")) return true;
    if (!line.empty() && line[0] != '#') return false;
  }
  return false;
}

absl::StatusOr<BatchJob> JobOfSbatch(const std::string& name, std::string_view content,
                                     const Environment& environment,
                                     const CountDevices& on_a_node) {
  JobDraft draft;
  draft.source = name;
  RETURN_IF_ERROR(TakeSbatch(content, environment, on_a_node, &draft));
  BatchJob job;
  ASSIGN_OR_RETURN(job.job_file, JobFileOf(draft, name));
  job.left_out = std::move(draft.left_out);
  return job;
}

}  // namespace muster::client
