// muster-coordinator repair
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "coordinator/care/check_report.h"
#include "coordinator/care/report.h"

namespace muster::coordinator {
namespace {

absl::Status RepairAndPrint(const Paths& paths, const StateCare& state, const CheckTotals& totals) {
  Print("\nrepair:");
  uint64_t changes = 0;
  RETURN_IF_ERROR(RepairData(paths, state, totals, common::SystemClock().Read().wall_ms,
                             [&changes](const std::string& path, const std::string& what) {
                               ++changes;
                               Print(FindingText({path, what, ""}));
                             }));
  if (changes == 0) Print("nothing to change");
  if (!totals.state.has_value()) {
    Print(Wrap(common::StrCat(state.Name(),
                              " is damaged and was left unchanged: only a backup can restore it")));
  }
  return absl::OkStatus();
}

}  // namespace

int RunRepair(const CareArguments& arguments) {
  return WithDataLocked(
      arguments, [](const Paths& paths, const StateCare& state, CheckTotals* totals) {
        const absl::Status checked = CheckAndPrint(paths, state, /*quick=*/false, totals);
        return checked.ok() ? RepairAndPrint(paths, state, *totals) : checked;
      });
}

}  // namespace muster::coordinator
