#include "coordinator/care/check_report.h"

#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "coordinator/care/report.h"
#include "coordinator/config/open_stores.h"

namespace muster::coordinator {
namespace {

using common::Counted;
using common::HumanBytes;

void PrintTotals(const CheckTotals& totals, bool quick) {
  if (totals.state.has_value()) {
    const StateContents& contents = *totals.state;
    absl::PrintF("database  event %d, %d live and %d finished jobs\n", contents.last_event,
                 contents.live_jobs, contents.finished_jobs);
  } else {
    Print("database  cannot be read");
  }
  absl::PrintF("blobs     %s, %s%s: %d damaged, %d missing\n", Counted(totals.blobs.files, "file"),
               HumanBytes(totals.blobs.bytes), quick ? " (sizes only)" : "",
               totals.blobs.damaged.size(), totals.blobs.missing);
  const SegmentTotals& segments = totals.segments;
  absl::PrintF("logs      %s, %s\n", Counted(segments.log_files, "file"),
               HumanBytes(segments.log_bytes));
  absl::PrintF("metrics   %s, %s\n", Counted(segments.metric_files, "file"),
               HumanBytes(segments.metric_bytes));
  absl::PrintF("samples   %s, %s%s\n", Counted(totals.samples.files, "file"),
               HumanBytes(totals.samples.bytes),
               totals.samples.damaged_bytes == 0
                   ? ""
                   : common::StrCat(", ", HumanBytes(totals.samples.damaged_bytes),
                                    " of them damaged and passed over"));
  if (totals.audit_entries > 0) {
    absl::PrintF(
        "audit     %s%s\n",
        totals.audit_entries == 1 ? "1 entry" : common::StrCat(totals.audit_entries, " entries"),
        totals.audit_first > 1 ? common::StrCat(" from ", totals.audit_first,
                                                " on; the files before were moved away, or taken")
                               : "");
  }
  if (totals.blobs.uploads > 0) {
    absl::PrintF("uploads   %s unfinished, %s\n", Counted(totals.blobs.uploads, "file"),
                 HumanBytes(totals.blobs.upload_bytes));
  }
}

}  // namespace

absl::Status CheckAndPrint(const Paths& paths, const StateCare& state, bool quick,
                           CheckTotals* totals) {
  const OnDamage print = [](const Damage& finding) { Print(FindingText(finding)); };
  RETURN_IF_ERROR(CheckData(paths, state, quick, print, totals));
  PrintTotals(*totals, quick);
  Print(totals->findings == 0 ? "no damage found" : Counted(totals->findings, "finding"));
  return absl::OkStatus();
}

int WithDataLocked(const CareArguments& arguments, const Care& act) {
  const Paths paths(arguments.data_dir);
  const std::unique_ptr<StateCare> state = OpenStateCare(ConfigOf(arguments.data_dir));
  const auto lock = LockForCare(paths, *state);
  if (!lock.ok()) return FailedExit(lock.status());
  CheckTotals totals;
  if (const absl::Status done = act(paths, *state, &totals); !done.ok()) return FailedExit(done);
  return totals.findings == 0 ? kCleanExit : kFindingsExit;
}

}  // namespace muster::coordinator
