// muster-coordinator check
#include "coordinator/care/check_report.h"

namespace muster::coordinator {

int RunCheck(const CareArguments& arguments) {
  return WithDataLocked(arguments, [&](const Paths& paths, CheckTotals* totals) {
    return CheckAndPrint(paths, arguments.quick, totals);
  });
}

}  // namespace muster::coordinator
