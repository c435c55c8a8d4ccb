// notify_commands: checked like a rank's launch, then run with its output kept.
#include "worker/exec/notify_commands.h"

#include <utility>
#include <vector>

#include "common/log.h"
#include "common/text/strings.h"
#include "worker/confinement/confined_command.h"
#include "worker/confinement/rank_account.h"

namespace muster::worker {
namespace {

LaunchFacts FactsOfNotify(const NotifyCommands::Setup& setup, const RankAccount& account) {
  LaunchFacts facts;
  facts.node = setup.node;
  facts.device_kinds = setup.device_kinds;
  const Person person = PersonOf(account);
  facts.home = person.home;
  facts.user = person.name;
  return facts;
}

// The ranks' /tmp may be gone, so the commands see the node's.
Confinement ConfinementOf(const NotifyCommands::Setup& setup) {
  Confinement confinement{.shim_binary = setup.shim_binary,
                          .no_new_privs = setup.isolation.no_new_privs,
                          .sandbox = setup.isolation.sandbox};
  if (confinement.sandbox.has_own_mounts) {
    confinement.sandbox.hidden_dirs = {setup.paths.StateDir(), setup.paths.RuntimeDir()};
  }
  return confinement;
}

// On a thread that may block: the working directory may be on a file system that hangs.
v1::NotifyEnded RunNow(const v1::RunNotify& order, const NotifyCommands::Setup& setup,
                       const std::atomic<bool>& stop) {
  v1::NotifyEnded ended;
  ended.set_job(order.job());
  ended.set_delivery(order.delivery());
  const absl::StatusOr<RankAccount> account =
      AccountFor(setup.run_as, setup.node, order.owner(), order.account());
  if (!account.ok()) {
    ended.set_problem(std::string(account.status().message()));
    return ended;
  }
  std::vector<common::RankLaunch> checked = {BuildNotify(order, FactsOfNotify(setup, *account))};
  std::optional<LaunchProblem> problem;
  {
    const ActAs acting(*account);
    problem = CheckLaunch(setup.node, &checked);
  }
  if (problem) {
    ended.set_problem(problem->text);
    return ended;
  }
  const CommandOutput output = RunConfined(ConfinementOf(setup), *account, checked.front(),
                                           {.timeout_ms = NotifyCommands::kTimeoutMs,
                                            .bytes_max = NotifyCommands::kOutputBytesMax,
                                            .stop = &stop});
  ended.set_problem(output.problem);
  ended.set_output((output.out + output.err).substr(0, NotifyCommands::kOutputBytesMax));
  return ended;
}

}  // namespace

NotifyCommands::NotifyCommands(Setup setup, std::function<void(v1::NotifyEnded)> ended)
    : setup_(std::make_shared<const Setup>(std::move(setup))), ended_(std::move(ended)) {}

std::optional<v1::NotifyEnded> NotifyCommands::Run(v1::RunNotify order) {
  if (const v1::NotifyEnded* ended = ended_before_.Find(order.delivery()); ended != nullptr)
    return *ended;
  if (running_.contains(order.delivery()) || running_.size() >= kWaitingMax) return std::nullopt;
  running_.insert(order.delivery());
  // A lane per delivery would need the delivery's number, so the deliveries of an attempt run one
  // after the other.
  const AttemptKey lane{order.job(), order.attempt()};
  threads_.Post(lane, Work::kNotify,
                [order = std::move(order), setup = setup_, stop = stop_, ended = ended_] {
                  v1::NotifyEnded how = RunNow(order, *setup, *stop);
                  if (!*stop) ended(std::move(how));
                });
  return std::nullopt;
}

void NotifyCommands::Ended(const v1::NotifyEnded& ended) {
  common::LogInfo(common::StrCat("a command of notify ended delivery=", ended.delivery(), " ",
                                 ended.problem().empty() ? "exit=0" : ended.problem()));
  running_.erase(ended.delivery());
  ended_before_.Put(ended.delivery(), ended);
}

bool NotifyCommands::Shutdown(std::chrono::milliseconds wait) {
  *stop_ = true;
  return threads_.Shutdown(wait);
}

}  // namespace muster::worker
