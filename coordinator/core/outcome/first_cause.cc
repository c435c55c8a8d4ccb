#include "coordinator/core/outcome/first_cause.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/text/text.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/views/last_words.h"
#include "coordinator/core/views/views.h"

namespace muster::coordinator {
namespace {

// Gloo, TCPStore, NCCL, MPI, HCCL. Lower case.
constexpr std::string_view kPeerLosses[] = {
    "connection closed by peer",
    "connection reset by peer",
    "socket closed by peer",
    "remote worker crashing",
    "remote process exited",
    "ncclremoteerror",
    "nccl communicator was aborted",
    "did the remote server shutdown or crash",
    "failed to recv, got 0 bytes",
    "watchdog caught collective operation timeout",
    "collective operation timeout",
    "timed out waiting for clients",
    "broken pipe",
};

// Failed on its own, not because we stopped it.
bool IsOwnDeath(const v1::RankExit& exit) { return IsFailure(exit) && !exit.stopped_by_us(); }

bool LostItsPeers(const v1::RankExit& exit) {
  if (exit.out_of_memory() || exit.launch_errno() != 0) return false;
  const bool was_killed = exit.signal() != 0 && IsSentByPeople(exit.signal());
  if (was_killed) return false;
  if (ReadsAsPeerLoss(exit.error_message())) return true;
  const std::vector<std::string> lines = FreshLines(exit);
  return std::any_of(lines.begin(), lines.end(),
                     [](const std::string& line) { return ReadsAsPeerLoss(line); });
}

struct Deaths {
  std::vector<const v1::RankExit*> causes;  // failures that are not a lost peer
  uint32_t followers = 0;
  uint32_t wordless = 0;  // of many failures only the first keep their texts
};

// Neither the kernel nor its texts explain it: most likely one of many that followed.
bool IsWordless(const v1::RankExit& exit) {
  return exit.signal() == 0 && !exit.out_of_memory() && exit.launch_errno() == 0 &&
         exit.error_message().empty() && exit.last_lines().empty();
}

Deaths SortDeaths(const v1::Attempt& attempt) {
  Deaths deaths;
  for (const v1::NodePart& part : attempt.parts()) {
    for (const v1::RankExit& exit : part.exits()) {
      if (!IsOwnDeath(exit)) continue;
      if (LostItsPeers(exit)) {
        ++deaths.followers;
      } else if (IsWordless(exit) && exit.rank() != attempt.culprit().rank()) {
        ++deaths.wordless;
      } else {
        deaths.causes.push_back(&exit);
      }
    }
  }
  return deaths;
}

// On one node the clock decides. Between nodes: the kernel's kills and signals first, because
// another rank's failure does not cause them; then by the time since the ranks were spawned, which
// is accurate enough.
const v1::RankExit* Earliest(const std::vector<const v1::RankExit*>& causes) {
  std::map<std::string_view, const v1::RankExit*> of_node;
  for (const v1::RankExit* exit : causes) {
    const v1::RankExit*& first = of_node[exit->node()];
    if (first == nullptr || exit->since_start_us() < first->since_start_us()) first = exit;
  }
  const auto key = [](const v1::RankExit* exit) {
    return std::tuple(!exit->out_of_memory(), exit->signal() == 0, exit->since_start_us(),
                      exit->rank());
  };
  const auto first =
      std::min_element(of_node.begin(), of_node.end(),
                       [&](const auto& a, const auto& b) { return key(a.second) < key(b.second); });
  return first->second;
}

const v1::NodePart* LostPart(const v1::Attempt& attempt) {
  const auto lost =
      std::find_if(attempt.parts().begin(), attempt.parts().end(), [](const v1::NodePart& part) {
        return part.failure_cause() == v1::STOP_CAUSE_NODE_LOST && !part.failure().empty();
      });
  return lost == attempt.parts().end() ? nullptr : &*lost;
}

std::string Followers(uint32_t count) {
  return count == 0 ? "" : absl::StrCat("; ", common::Counted(count, "other"), " died of it");
}

}  // namespace

bool ReadsAsPeerLoss(std::string_view line) {
  std::string lower(line);
  absl::AsciiStrToLower(&lower);
  return std::any_of(std::begin(kPeerLosses), std::end(kPeerLosses),
                     [&](std::string_view loss) { return lower.find(loss) != std::string::npos; });
}

void JudgeFirstCause(const v1::Attempt& attempt, v1::AttemptEnded& ended) {
  if (ended.cause() != v1::STOP_CAUSE_RANK_FAILED || !attempt.has_culprit()) return;
  const Deaths deaths = SortDeaths(attempt);
  if (!LostItsPeers(attempt.culprit())) {
    // Failures without a text count as followers once one is known to have followed.
    const uint32_t wordless = deaths.followers > 0 ? deaths.wordless : 0;
    ended.set_reason(absl::StrCat(ended.reason(), Followers(deaths.followers + wordless)));
    return;
  }
  if (!deaths.causes.empty()) {
    const v1::RankExit* first = Earliest(deaths.causes);
    *ended.mutable_culprit() = *first;
    ended.set_reason(absl::StrCat(DescribeExit(*first), Followers(deaths.followers)));
    return;
  }
  const v1::NodePart* lost = LostPart(attempt);
  if (lost == nullptr) return;
  // The job's budget for lost nodes pays for the restart.
  ended.set_cause(lost->failure_cause());
  ended.set_reason(absl::StrCat(lost->failure(), Followers(deaths.followers)));
}

}  // namespace muster::coordinator
