// launch_checks: the first answer counts, from the file system or the timeout.
#include "worker/launch_checks.h"

#include <cerrno>
#include <utility>

#include "common/clock.h"
#include "common/strings.h"

namespace muster::worker {
namespace {

constexpr int64_t kCheckMs = 20'000;
constexpr int kExitNotExecutable = 126;

}  // namespace

void LaunchChecks::Start(const AttemptKey& key, std::vector<common::RankLaunch> ranks,
                         std::function<void()> last, Done done) {
  const uint64_t number = ++last_number_;
  running_[key] = {number, common::MonotonicMs() + kCheckMs,
                   ranks.empty() ? "" : ranks.front().workdir, std::move(done)};
  threads_->Post(key, Work::kLaunch,
                 [this, key, number, ranks = std::move(ranks), last = std::move(last)]() mutable {
                   std::optional<LaunchProblem> problem = CheckLaunch(node_, &ranks);
                   if (!problem && last) last();
                   in_loop_([this, key, number, problem = std::move(problem),
                             ranks = std::move(ranks)]() mutable {
                     const auto found = running_.find(key);
                     if (found == running_.end() || found->second.number != number) return;
                     const Done done = std::move(found->second.done);
                     running_.erase(found);
                     done(std::move(problem), std::move(ranks));
                   });
                 });
}

std::optional<int64_t> LaunchChecks::NextDeadlineMs() const {
  std::optional<int64_t> next;
  for (const auto& [key, check] : running_) {
    if (!next || check.deadline_ms < *next) next = check.deadline_ms;
  }
  return next;
}

void LaunchChecks::OnTime(int64_t now_ms) {
  std::vector<Check> late;
  for (auto at = running_.begin(); at != running_.end();) {
    if (at->second.deadline_ms > now_ms) {
      ++at;
      continue;
    }
    late.push_back(std::move(at->second));
    at = running_.erase(at);
  }
  for (const Check& check : late) {
    check.done(
        LaunchProblem{ETIMEDOUT, kExitNotExecutable,
                      common::StrCat("node ", node_,
                                     ": the file system of the working "
                                     "directory ",
                                     check.workdir, " or of the command did not answer within ",
                                     kCheckMs / 1000, " s; fix: look at that mount on the node")},
        {});
  }
}

}  // namespace muster::worker
