#include "absl/strings/str_cat.h"
#include "common/base/version.h"
#include "common/problem.h"
#include "common/text/text.h"
#include "coordinator/core/decide/decide.h"

namespace muster::coordinator {
namespace {

constexpr size_t kVersionShownMax = 100;

}  // namespace

absl::Status JudgeProtocol(const std::string& program, const std::string& version,
                           uint32_t protocol) {
  if (protocol >= common::kProtocolMin && protocol <= common::kProtocol) return absl::OkStatus();
  const bool is_older = protocol < common::kProtocolMin;
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1302",
       .what = absl::StrCat(program, version.empty() ? "" : " ",
                            common::Printable(version.substr(0, kVersionShownMax)),
                            " speaks protocol ", protocol, "; this coordinator (", common::kVersion,
                            ") ", is_older ? "needs at least " : "supports none above ",
                            is_older ? common::kProtocolMin : common::kProtocol),
       .fix = is_older ? absl::StrCat("install ", program, " ", common::kVersion, " there")
                       : "upgrade the coordinator first, then workers and clients"});
}

}  // namespace muster::coordinator
