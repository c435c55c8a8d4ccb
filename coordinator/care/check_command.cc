// muster-coordinator check, and repair, which checks first.
#include <cstdio>

#include "absl/strings/str_format.h"
#include "common/clock.h"
#include "common/problem.h"
#include "common/strings.h"
#include "common/text.h"
#include "common/units.h"
#include "coordinator/care/check.h"
#include "coordinator/care/commands.h"
#include "coordinator/care/report.h"

namespace muster::coordinator {
namespace {

using common::Counted;
using common::HumanBytes;
using common::StrCat;

void Print(const std::string& text) { std::printf("%s\n", text.c_str()); }

void PrintTotals(const CheckTotals& totals, bool quick) {
  const DatabaseContents& contents = totals.contents;
  if (totals.has_contents) {
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
  if (totals.blobs.uploads > 0) {
    absl::PrintF("uploads   %s unfinished, %s\n", Counted(totals.blobs.uploads, "file"),
                 HumanBytes(totals.blobs.upload_bytes));
  }
}

absl::Status CheckAndPrint(const Paths& paths, bool quick, CheckTotals* totals) {
  const Found print = [](const Finding& finding) { Print(FindingText(finding)); };
  if (const absl::Status read = CheckData(paths, quick, print, totals); !read.ok()) return read;
  PrintTotals(*totals, quick);
  Print(totals->findings == 0 ? "no damage found" : Counted(totals->findings, "finding"));
  return absl::OkStatus();
}

absl::Status RepairAndPrint(const Paths& paths, const CheckTotals& totals) {
  Print("\nrepair:");
  uint64_t changes = 0;
  const absl::Status repaired =
      RepairData(paths, totals, common::SystemClock().Read().wall_ms,
                 [&changes](const std::string& path, const std::string& what) {
                   ++changes;
                   Print(FindingText({path, what, ""}));
                 });
  if (!repaired.ok()) return repaired;
  if (changes == 0) Print("nothing to change");
  if (!totals.has_contents) {
    Print(Wrap("muster.db is damaged and was left as it is: only a backup can bring it back"));
  }
  return absl::OkStatus();
}

// Holds LOCK while `act` works.
template <typename Act>
int WithLock(const CareArguments& arguments, Act act) {
  const Paths paths(arguments.data_dir);
  const auto lock = LockForCare(paths);
  CheckTotals totals;
  const absl::Status status = lock.ok() ? act(paths, &totals) : lock.status();
  std::fflush(stdout);
  if (status.ok()) return totals.findings == 0 ? kCleanExit : kFindingsExit;
  std::fprintf(stderr, "muster-coordinator: %s\n", std::string(status.message()).c_str());
  return common::CodeOf(status) == "JC1604" ? kLockedExit : kNotDoneExit;
}

}  // namespace

int RunCheck(const CareArguments& arguments) {
  return WithLock(arguments, [&](const Paths& paths, CheckTotals* totals) {
    return CheckAndPrint(paths, arguments.quick, totals);
  });
}

int RunRepair(const CareArguments& arguments) {
  return WithLock(arguments, [&](const Paths& paths, CheckTotals* totals) {
    const absl::Status checked = CheckAndPrint(paths, /*quick=*/false, totals);
    return checked.ok() ? RepairAndPrint(paths, *totals) : checked;
  });
}

}  // namespace muster::coordinator
