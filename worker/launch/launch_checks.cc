// launch_checks: the first answer counts, from the file system or the timeout.
#include "worker/launch/launch_checks.h"

#include <cerrno>
#include <utility>

#include "common/base/clock.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace {

// limit: jobs: a launch check; the attempt did not start
constexpr int64_t kCheckMs = 20'000;
constexpr int kExitNotExecutable = 126;
constexpr int kExitMissing = 127;

// Ranks with their own /tmp see only their working directory of the node's /tmp.
std::optional<LaunchProblem> CheckVisible(const std::string& node, const std::string& shown,
                                          const std::vector<common::RankLaunch>& ranks) {
  for (const common::RankLaunch& rank : ranks) {
    const std::string& program = rank.program;
    if (!program.starts_with("/tmp/") && !program.starts_with("/var/tmp/")) continue;
    if (!shown.empty() && program.starts_with(shown + "/")) continue;
    const bool is_kept = rank.workdir != "/tmp" && rank.workdir != "/var/tmp";
    if (is_kept && program.starts_with(rank.workdir + "/")) continue;
    return LaunchProblem{
        ENOENT, kExitMissing,
        common::StrCat("node ", node, ": command ", program,
                       " is in the node's /tmp, and ranks have their own there; fix: put it into "
                       "the working directory or anywhere else, or start that node's worker with "
                       "--sandbox none")};
  }
  return std::nullopt;
}

std::optional<LaunchProblem> CheckAs(const absl::StatusOr<RankAccount>& account,
                                     const std::string& node, bool has_own_tmp,
                                     const std::string& shown,
                                     std::vector<common::RankLaunch>* ranks,
                                     const LaunchChecks::Check& check,
                                     const std::function<void()>& last) {
  if (!account.ok()) {
    return LaunchProblem{EPERM, kExitNotExecutable, std::string(account.status().message())};
  }
  const ActAs acting(*account);
  std::optional<LaunchProblem> problem = check ? check(ranks) : CheckLaunch(node, ranks);
  if (!problem && has_own_tmp && !check) problem = CheckVisible(node, shown, *ranks);
  if (!problem && last) last();
  return problem;
}

}  // namespace

void LaunchChecks::Start(const AttemptKey& key, std::vector<common::RankLaunch> ranks,
                         Account account, std::function<void()> last, Done done, Check check) {
  const uint64_t number = ++last_number_;
  running_[key] = {number, common::MonotonicMs() + kCheckMs,
                   ranks.empty() ? "" : ranks.front().workdir, std::move(done)};
  threads_->Post(key, Work::kLaunch,
                 [this, key, number, ranks = std::move(ranks), account = std::move(account),
                  last = std::move(last), check = std::move(check)]() mutable {
                   std::optional<LaunchProblem> problem =
                       CheckAs(account(), node_, has_own_tmp_, shown_, &ranks, check, last);
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
  std::vector<Running> late;
  for (auto at = running_.begin(); at != running_.end();) {
    if (at->second.deadline_ms > now_ms) {
      ++at;
      continue;
    }
    late.push_back(std::move(at->second));
    at = running_.erase(at);
  }
  for (const Running& check : late) {
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
