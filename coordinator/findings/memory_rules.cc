// Host memory of the ranks. Device memory is left out: caching allocators fill it on purpose.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/text/units.h"
#include "coordinator/findings/rules.h"
#include "coordinator/findings/say.h"

namespace muster::coordinator {
namespace {

constexpr double kNearLimit = 0.92;  // the page cache and one more batch need the rest
constexpr size_t kNearSamples = 10;  // all of the newest ten seconds
// A leak grows in every stretch; a cache that fills up stops growing.
constexpr size_t kGrowingStretches = 9;
constexpr double kGrowthLeast = 0.2;         // over these stretches
constexpr double kGrowthBytesLeast = 256e6;  // less does no harm
constexpr double kStretchSlack = 0.995;      // a stretch may fall by this much
constexpr double kLimitWithinSeconds = 24 * 3600.0;

double SecondsToLimit(const RankSamples& rank, double growth, double seconds) {
  const v1::RankSample& last = rank.newest.back().second;
  if (last.memory_limit_bytes() == 0 || growth <= 0) return 1e18;
  const double left =
      static_cast<double>(last.memory_limit_bytes()) - static_cast<double>(last.resident_bytes());
  return std::max(0.0, left) / growth * seconds;
}

// The kernel rounds a limit down to whole pages; a lower limit belongs to the node or the worker.
bool IsItsOwnLimit(const v1::JobRecord& job, const v1::RankSample& sample) {
  constexpr uint64_t kPageMax = 64 << 10;
  const uint64_t limit = job.spec().shape().limits().memory_bytes();
  return limit > 0 && sample.memory_limit_bytes() + kPageMax > limit &&
         sample.memory_limit_bytes() <= limit;
}

}  // namespace

// A rank holds 92 % or more of the memory that its control group or node allows.
// Silent: unless all of the last ten samples show it; about several ranks that fill a node only
// together, as shared pages count in each.
std::optional<v1::Finding> MemoryNearLimit(const Evidence& evidence, const v1::Ledger&) {
  const v1::Attempt* attempt = evidence.Running();
  if (attempt == nullptr || evidence.samples.attempt() != attempt->number()) return std::nullopt;
  for (const auto& [number, rank] : evidence.samples.ranks()) {
    if (rank.newest.size() < kNearSamples) continue;
    const bool near =
        std::all_of(rank.newest.end() - static_cast<std::ptrdiff_t>(kNearSamples),
                    rank.newest.end(), [](const auto& entry) {
                      const v1::RankSample& sample = entry.second;
                      return sample.memory_limit_bytes() > 0 &&
                             static_cast<double>(sample.resident_bytes()) >=
                                 kNearLimit * static_cast<double>(sample.memory_limit_bytes());
                    });
    if (!near) continue;
    const v1::RankSample& last = rank.newest.back().second;
    const bool own = IsItsOwnLimit(evidence.job, last);
    v1::Finding finding =
        MakeFinding(v1::FINDING_SEVERITY_WARNING,
                    {absl::StrCat(RankOnNode(*attempt, number), " uses ",
                                  common::HumanBytes(last.resident_bytes()), " of ",
                                  common::HumanBytes(last.memory_limit_bytes()), " memory",
                                  own ? ", its limit (--memory)" : ""),
                     "the kernel will kill it when the rest is used up",
                     absl::StrCat("a smaller batch, fewer loader workers, or ",
                                  own ? "a larger --memory" : "a node with more memory")});
    AddNumber(finding, "resident", static_cast<double>(last.resident_bytes()), "bytes");
    AddNumber(finding, "limit", static_cast<double>(last.memory_limit_bytes()), "bytes");
    finding.add_ranks(number);
    finding.set_node(rank.node);
    return finding;
  }
  return std::nullopt;
}

// A rank's memory grows without end: in each of nine stretches of at least ten seconds, by a fifth
// and 256 MB in all, at a pace that meets the limit within a day.
// Silent: in the first quarter of its life (caches fill); when one stretch falls; without a limit.
std::optional<v1::Finding> MemoryGrowing(const Evidence& evidence, const v1::Ledger&) {
  const v1::Attempt* attempt = evidence.Running();
  if (attempt == nullptr || evidence.samples.attempt() != attempt->number()) return std::nullopt;
  for (const auto& [number, rank] : evidence.samples.ranks()) {
    const std::vector<double>& all = rank.resident;
    const size_t first = all.size() / 4;
    if (all.size() - first < kGrowingStretches || rank.newest.empty()) continue;
    bool grows = true;
    for (size_t i = first + 1; i < all.size(); ++i) grows &= all[i] >= all[i - 1] * kStretchSlack;
    // The second half must have grown as well: a plateau does not count.
    const double growth = all.back() - all[first];
    const double late = all.back() - all[first + (all.size() - first) / 2];
    const double seconds = static_cast<double>((all.size() - 1 - first)) *
                           static_cast<double>(evidence.samples.stretch_ms()) / 1e3;
    if (!grows || growth < kGrowthLeast * all[first] || growth < kGrowthBytesLeast) continue;
    if (late < growth / 4) continue;
    const double left = SecondsToLimit(rank, growth, seconds);
    if (left > kLimitWithinSeconds) continue;
    v1::Finding finding = MakeFinding(
        v1::FINDING_SEVERITY_WARNING,
        {absl::StrCat("the memory of ", RankOnNode(*attempt, number),
                      " grows without end; full in about ", ShortTime(left)),
         "something keeps every step's values: losses added up with their graphs, a growing list, "
         "a loader's cache",
         "collect loss.item() instead of losses, and bound lists and caches"});
    AddNumber(finding, "grew by", growth, "bytes");
    AddNumber(finding, "within", seconds, "s");
    AddNumber(finding, "full in", left, "s");
    finding.add_ranks(number);
    finding.set_node(rank.node);
    return finding;
  }
  return std::nullopt;
}

}  // namespace muster::coordinator
