// muster-coordinator backup

#include "absl/strings/str_format.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "coordinator/care/backup.h"
#include "coordinator/care/commands.h"
#include "coordinator/care/report.h"
#include "coordinator/config/open_stores.h"

namespace muster::coordinator {

using common::Counted;
using common::HumanBytes;

int RunBackup(const CareArguments& arguments) {
  Progress progress("copied");
  PrintedFindings findings(progress);
  const auto made =
      MakeBackup({arguments.data_dir, arguments.to}, *OpenStateCare(ConfigOf(arguments.data_dir)),
                 findings.Printer(), [&progress](uint64_t bytes) { progress.Add(bytes); });
  progress.Clear();
  if (!made.ok()) return FailedExit(made.status());
  absl::PrintF("backup %d: %s, %s; copied %s, %s\n", made->number, Counted(made->files, "file"),
               HumanBytes(made->bytes), Counted(made->copied_files, "file"),
               HumanBytes(made->copied_bytes));
  absl::PrintF("event %d, %d live and %d finished jobs\n", made->last_event, made->live_jobs,
               made->finished_jobs);
  return LeftOutExit(findings);
}

}  // namespace muster::coordinator
