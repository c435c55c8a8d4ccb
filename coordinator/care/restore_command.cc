// muster-coordinator restore
#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "coordinator/care/commands.h"
#include "coordinator/care/report.h"
#include "coordinator/care/restore.h"
#include "coordinator/config/open_stores.h"

namespace muster::coordinator {
namespace {

using common::Counted;
using common::HumanBytes;
using common::StrCat;

void PrintRestored(const RestoreTotals& totals, int64_t wall_ms) {
  const std::string made = absl::FormatTime(
      "%Y-%m-%d %H:%M:%S UTC", absl::FromUnixMillis(totals.made_ms), absl::UTCTimeZone());
  absl::PrintF("restored %s, %s: event %d, %d live and %d finished jobs\n",
               Counted(totals.files, "file"), HumanBytes(totals.bytes), totals.last_event,
               totals.live_jobs, totals.finished_jobs);
  absl::PrintF("the backup was made at %s, %s ago\n", made,
               common::HumanDuration(std::max<int64_t>(wall_ms - totals.made_ms, 0)));
  if (totals.newer_was_interrupted) {
    Print(Wrap("A later backup into that directory was interrupted; this is the last whole one."));
  }
  Print(Wrap(
      "The backup has nothing newer. When a node registers, ranks of an attempt that is in the "
      "backup are adopted; all others are stopped. Jobs that were live in the backup but are no "
      "longer running, including those that have ended since, restart from their last checkpoint "
      "in it. Jobs submitted since then are gone."));
  Print(Wrap(StrCat("New jobs are numbered from ", totals.next_job,
                    ", so that no number is used twice.")));
}

}  // namespace

int RunRestore(const CareArguments& arguments) {
  Progress progress("restored");
  PrintedFindings findings(progress);
  const int64_t wall_ms = common::SystemClock().Read().wall_ms;
  const auto restored = RestoreBackup(
      {arguments.from, arguments.data_dir, wall_ms}, *OpenStateCare(ConfigOf(arguments.data_dir)),
      findings.Printer(), [&progress](uint64_t bytes) { progress.Add(bytes); });
  progress.Clear();
  if (!restored.ok()) return FailedExit(restored.status());
  PrintRestored(*restored, wall_ms);
  return LeftOutExit(findings);
}

}  // namespace muster::coordinator
