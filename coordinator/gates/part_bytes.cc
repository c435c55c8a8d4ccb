#include "coordinator/gates/part_bytes.h"

#include <string>

#include "common/base/limits.h"
#include "common/outputs.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/stores/shortage.h"

namespace muster::coordinator {
namespace {

constexpr size_t kShownPathBytesMax = 200;

}  // namespace

absl::Status CheckPartBytes(Blobs& blobs, const std::string& owner,
                            const v1::CheckpointPartReady& part) {
  // Passes: the core refuses such a list.
  if (part.files_size() > static_cast<int>(common::kPartFilesMax)) return absl::OkStatus();
  const bool is_outputs = part.step() == common::kOutputsStep;
  for (const v1::CheckpointFile& file : part.files()) {
    const absl::StatusOr<bool> is_here =
        KeepProven(blobs, owner, part.job(), file.sha256(), file.size());
    if (is_here.ok() && *is_here) continue;
    if (IsShortage(is_here.status())) return is_here.status();
    return common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1508",
         .what = common::StrCat(
             "file ", common::Printable(file.path().substr(0, kShownPathBytesMax)), " (",
             file.size(), " bytes, SHA-256 ", common::Printable(file.sha256().substr(0, 64)),
             ") of ",
             is_outputs ? std::string("the outputs") : common::StrCat("step ", part.step()),
             " part ", part.part(), " was not uploaded"),
         .fix = is_outputs ? "run the job again if it is needed"
                           : "the job continues, and its next checkpoint counts again"});
  }
  return absl::OkStatus();
}

}  // namespace muster::coordinator
