#include "client/text/coordinator_words.h"

#include "common/text/strings.h"
#include "common/text/units.h"

namespace muster::client {
namespace {

// A coordinator looks five times in a lease, and an answer of etcd may take a few seconds.
constexpr int64_t kStaleMs = 10'000;

}  // namespace

std::string SilenceOfEtcd(const v1::ListCoordinatorsResponse& list, int64_t now_ms) {
  const std::string silence = common::StrCat("etcd has not answered ", list.answered_by());
  if (list.seen_ms() == 0) return silence + " yet";
  const int64_t age_ms = now_ms - list.seen_ms();
  if (age_ms <= kStaleMs) return "";
  return common::StrCat(silence, " for ", common::HumanDuration(age_ms / 1'000 * 1'000));
}

}  // namespace muster::client
