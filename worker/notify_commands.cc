// notify_commands: checked like a rank's launch, then run with its output kept.
#include "worker/notify_commands.h"

#include <pwd.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "common/log.h"
#include "common/strings.h"
#include "worker/bounded_command.h"

namespace muster::worker {
namespace {

LaunchFacts FactsOfNotify(const std::string& node, std::set<std::string> device_kinds) {
  LaunchFacts facts;
  facts.node = node;
  facts.device_kinds = std::move(device_kinds);
  if (const passwd* user = getpwuid(getuid()); user != nullptr) {
    facts.home = user->pw_dir;
    facts.user = user->pw_name;
  }
  return facts;
}

// On a thread that may block: the working directory may be on a file system that hangs.
v1::NotifyEnded RunNow(const v1::RunNotify& order, const LaunchFacts& facts,
                       const std::atomic<bool>& stop) {
  v1::NotifyEnded ended;
  ended.set_job(order.job());
  ended.set_delivery(order.delivery());
  std::vector<common::RankLaunch> checked = {BuildNotify(order, facts)};
  if (const auto problem = CheckLaunch(facts.node, &checked)) {
    ended.set_problem(problem->text);
    return ended;
  }
  const common::RankLaunch& command = checked.front();
  const CommandOutput output = RunBounded({.program = command.program,
                                           .argv = command.argv,
                                           .env = command.env,
                                           .workdir = command.workdir,
                                           .timeout_ms = NotifyCommands::kTimeoutMs,
                                           .bytes_max = NotifyCommands::kOutputBytesMax,
                                           .stop = &stop});
  ended.set_problem(output.problem);
  ended.set_output((output.out + output.err).substr(0, NotifyCommands::kOutputBytesMax));
  return ended;
}

}  // namespace

NotifyCommands::NotifyCommands(std::string node, std::set<std::string> device_kinds,
                               std::function<void(v1::NotifyEnded)> ended)
    : node_(std::move(node)),
      facts_(FactsOfNotify(node_, std::move(device_kinds))),
      ended_(std::move(ended)) {}

std::optional<v1::NotifyEnded> NotifyCommands::Run(v1::RunNotify order) {
  const auto known = known_.find(order.delivery());
  if (known != known_.end()) return known->second;
  if (known_.size() - remembered_.size() >= kWaitingMax) return std::nullopt;
  known_[order.delivery()] = std::nullopt;
  // One lane for each delivery would need its number; an attempt's run one after the other.
  const AttemptKey lane{order.job(), order.attempt()};
  threads_.Post(lane, Work::kNotify,
                [order = std::move(order), facts = facts_, stop = stop_, ended = ended_] {
                  v1::NotifyEnded how = RunNow(order, facts, *stop);
                  if (!*stop) ended(std::move(how));
                });
  return std::nullopt;
}

void NotifyCommands::Ended(const v1::NotifyEnded& ended) {
  common::LogInfo(common::StrCat("a command of notify ended delivery=", ended.delivery(), " ",
                                 ended.problem().empty() ? "exit=0" : ended.problem()));
  known_[ended.delivery()] = ended;
  remembered_.push_back(ended.delivery());
  if (remembered_.size() <= kRememberedMax) return;
  known_.erase(remembered_.front());
  remembered_.pop_front();
}

bool NotifyCommands::Shutdown(std::chrono::milliseconds wait) {
  *stop_ = true;
  return threads_.Shutdown(wait);
}

}  // namespace muster::worker
