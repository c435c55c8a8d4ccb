// muster-coordinator check
#include "coordinator/care/check_report.h"

namespace muster::coordinator {

int RunCheck(const CareArguments& arguments) {
  return WithDataLocked(arguments,
                        [&](const Paths& paths, const StateCare& state, CheckTotals* totals) {
                          return CheckAndPrint(paths, state, arguments.quick, totals);
                        });
}

}  // namespace muster::coordinator
