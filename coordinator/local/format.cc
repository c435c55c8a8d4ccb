#include "coordinator/local/format.h"

#include <cstdint>
#include <vector>

#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/base/number_file.h"

namespace muster::coordinator {
namespace {

constexpr int64_t kFormat = 2;  // since 0.2.0

}  // namespace

absl::Status CheckFormat(const Paths& paths) {
  const std::vector<int64_t> format = ReadNumbers(paths.Format(), 1);
  if (format.empty()) return WriteNumbers(paths.Format(), {kFormat});
  if (format[0] == kFormat) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1603",
       .what = common::StrCat(paths.Format(), " names format ", format[0]),
       .why = common::StrCat("this muster-coordinator knows format ", kFormat),
       .fix = format[0] > kFormat ? "start the newer version, or name another --data-dir"
                                  : "start 0.2.0 on it once, or name another --data-dir"});
}

}  // namespace muster::coordinator
