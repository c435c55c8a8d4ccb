#include "absl/strings/str_cat.h"
#include "common/text.h"
#include "common/version.h"
#include "coordinator/core/decide.h"

namespace muster::coordinator {
namespace {

constexpr size_t kVersionShownMax = 100;

}  // namespace

absl::Status JudgeProtocol(const std::string& program, const std::string& version,
                           uint32_t protocol) {
  if (protocol >= common::kProtocolMin && protocol <= common::kProtocol) return absl::OkStatus();
  const std::string said =
      absl::StrCat("[JC1302] ", program, version.empty() ? "" : " ",
                   common::Printable(version.substr(0, kVersionShownMax)), " speaks protocol ",
                   protocol, "; this coordinator (", common::kVersion, ") ");
  if (protocol < common::kProtocolMin) {
    return absl::FailedPreconditionError(absl::StrCat(said, "needs at least ", common::kProtocolMin,
                                                      "; fix: install ", program, " ",
                                                      common::kVersion, " there"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat(said, "knows none above ", common::kProtocol,
                   "; fix: upgrade the coordinator first, then workers and clients"));
}

}  // namespace muster::coordinator
