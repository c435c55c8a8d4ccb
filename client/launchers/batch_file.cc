#include "client/launchers/batch_file.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/command_line/errors.h"
#include "client/launchers/launch_script.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"

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

namespace {

// Moves the parts that the user ignores to left_out; the rest becomes one error.
absl::Status SettleRefused(const BatchScript& script, JobDraft* draft) {
  std::string what, fix;
  std::vector<std::string> names;
  for (const RefusedPart& part : draft->refused) {
    if (std::find(script.ignored.begin(), script.ignored.end(), part.name) !=
        script.ignored.end()) {
      draft->left_out.push_back(part.what);
      continue;
    }
    common::StrAppend(&what, what.empty() ? "" : "; ", part.what);
    if (std::find(names.begin(), names.end(), part.name) != names.end()) continue;
    names.push_back(part.name);
    common::StrAppend(&fix, fix.empty() ? "" : "; ", part.fix);
  }
  if (what.empty()) return absl::OkStatus();
  return Usage(
      "JC1013",
      common::StrCat(script.name, " would mean something else here: ", common::Printable(what)),
      common::StrCat(fix, "; or without it: --ignore ", absl::StrJoin(names, ",")));
}

}  // namespace

absl::StatusOr<BatchJob> JobOfSbatch(const BatchScript& script, const Environment& environment,
                                     const CountDevices& on_a_node) {
  JobDraft draft;
  draft.source = script.name;
  RETURN_IF_ERROR(TakeSbatch(script.content, script.arguments, environment, on_a_node, &draft));
  RETURN_IF_ERROR(SettleRefused(script, &draft));
  BatchJob job;
  ASSIGN_OR_RETURN(job.job_file, JobFileOf(draft, script.name));
  job.notes = std::move(draft.notes);
  job.left_out = std::move(draft.left_out);
  return job;
}

}  // namespace muster::client
