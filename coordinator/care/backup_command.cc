// muster-coordinator backup, and restore.
#include <algorithm>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/problem.h"
#include "common/strings.h"
#include "common/text.h"
#include "common/units.h"
#include "coordinator/care/backup.h"
#include "coordinator/care/commands.h"
#include "coordinator/care/report.h"
#include "coordinator/care/restore.h"

namespace muster::coordinator {
namespace {

using common::Counted;
using common::HumanBytes;
using common::StrCat;

void Print(const std::string& text) { std::printf("%s\n", text.c_str()); }

int Failed(const absl::Status& status) {
  std::fprintf(stderr, "muster-coordinator: %s\n", std::string(status.message()).c_str());
  return common::CodeOf(status) == "JC1604" ? kLockedExit : kNotDoneExit;
}

// Prints findings between the lines of a progress, and counts them.
class Findings {
 public:
  explicit Findings(Progress& progress) : progress_(progress) {}
  Found Printer() {
    return [this](const Finding& finding) {
      ++count_;
      progress_.Clear();
      Print(FindingText(finding));
    };
  }
  uint64_t Count() const { return count_; }

 private:
  Progress& progress_;
  uint64_t count_ = 0;
};

int Ended(const Findings& findings) {
  if (findings.Count() == 0) return kCleanExit;
  absl::PrintF("%s: what they name is left out\n", Counted(findings.Count(), "finding"));
  return kFindingsExit;
}

std::string Jobs(uint64_t live, uint64_t finished) {
  return StrCat(live, " live and ", finished, " finished jobs");
}

void PrintRestored(const RestoreTotals& totals, int64_t wall_ms) {
  const std::string made = absl::FormatTime(
      "%Y-%m-%d %H:%M:%S UTC", absl::FromUnixMillis(totals.made_ms), absl::UTCTimeZone());
  absl::PrintF("restored %s, %s: event %d, %s\n", Counted(totals.files, "file"),
               HumanBytes(totals.bytes), totals.last_event,
               Jobs(totals.live_jobs, totals.finished_jobs));
  absl::PrintF("the backup is of %s, %s ago\n", made,
               common::HumanDuration(std::max<int64_t>(wall_ms - totals.made_ms, 0)));
  if (totals.newer_was_interrupted) {
    Print(Wrap("A later backup into that directory was interrupted; this is the last whole one."));
  }
  Print(Wrap(
      "What happened since is not in it. When a node registers, ranks of an attempt that the "
      "backup "
      "knows are adopted; all others are stopped. Jobs that were live in the backup and are no "
      "longer running, also those that have ended since, start again from their last checkpoint in "
      "it. Jobs submitted since are gone."));
  Print(Wrap(StrCat("New jobs are numbered from ", totals.next_job,
                    ", so that no number is used twice.")));
}

}  // namespace

int RunBackup(const CareArguments& arguments) {
  Progress progress("copied");
  Findings findings(progress);
  const auto made = MakeBackup({arguments.data_dir, arguments.to}, findings.Printer(),
                               [&progress](uint64_t bytes) { progress.Add(bytes); });
  progress.Clear();
  if (!made.ok()) return Failed(made.status());
  absl::PrintF("backup %d: %s, %s; copied %s, %s\n", made->number, Counted(made->files, "file"),
               HumanBytes(made->bytes), Counted(made->copied_files, "file"),
               HumanBytes(made->copied_bytes));
  absl::PrintF("event %d, %s\n", made->last_event, Jobs(made->live_jobs, made->finished_jobs));
  return Ended(findings);
}

int RunRestore(const CareArguments& arguments) {
  Progress progress("restored");
  Findings findings(progress);
  const int64_t wall_ms = common::SystemClock().Read().wall_ms;
  const auto restored =
      RestoreBackup({arguments.from, arguments.data_dir, wall_ms}, findings.Printer(),
                    [&progress](uint64_t bytes) { progress.Add(bytes); });
  progress.Clear();
  if (!restored.ok()) return Failed(restored.status());
  PrintRestored(*restored, wall_ms);
  return Ended(findings);
}

}  // namespace muster::coordinator
