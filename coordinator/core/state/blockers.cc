#include "coordinator/core/state/blockers.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace muster::coordinator {
namespace {

constexpr char kNeeds[] = "needs ";

constexpr bool IsInOrder() {
  for (size_t i = 0; i < kBlockers.size(); ++i) {
    if (kBlockers[i].reason != static_cast<Reason>(i)) return false;
  }
  return true;
}
static_assert(IsInOrder(), "one row per reason, in the order of the reasons");

}  // namespace

const BlockerRow& RowOf(Reason reason) {
  const auto index = static_cast<size_t>(reason);
  CHECK(index < kBlockers.size());  // only policies give reasons, and each reason has a row
  return kBlockers[index];
}

Blocker MakeBlocker(Reason reason, const std::string& rest, const std::string& needs) {
  const BlockerRow& row = RowOf(reason);
  CHECK(row.of_demand == needs.starts_with(kNeeds));  // the policy wrote both
  return {.reason = reason, .text = absl::StrCat(needs, row.of_demand ? "; " : "", row.text, rest)};
}

std::string FixOf(const Blocker& blocker) {
  const char* fix = RowOf(blocker.reason).fix;
  return blocker.first_fix.empty() ? fix : absl::StrCat(blocker.first_fix, "; or ", fix);
}

bool IsFoundByPass(std::string_view reason) {
  return std::any_of(kBlockers.begin(), kBlockers.end(), [&](const BlockerRow& row) {
    return row.reason != Reason::kBehindOthers &&
           reason.starts_with(row.of_demand ? kNeeds : row.text);
  });
}

}  // namespace muster::coordinator
