#include "worker/launch/marked_processes.h"

#include <poll.h>
#include <signal.h>

#include <set>
#include <vector>

#include "common/kernel/process.h"

namespace muster::worker {
namespace {

constexpr int kKillRoundsMax = 100;
constexpr int kKillPauseMs = 10;

// The signal works once the process is between two system calls, of which fork may be the first.
void AwaitStop(pid_t pid) {
  common::ProcessStat stat;
  for (int round = 0; round < kKillRoundsMax; ++round) {
    if (!common::ReadProcessStat(pid, &stat) ||
        (stat.state != 'R' && stat.state != 'S' && stat.state != 'D'))
      return;
    poll(nullptr, 0, 1);
  }
}

// A parent may have a larger pid than its child, so search in rounds until no more are found.
std::vector<pid_t> LiveBelow(pid_t leader) {
  const std::vector<common::ProcessStat> all = common::ListProcesses();
  std::set<pid_t> family = {leader};
  std::vector<pid_t> live;
  for (bool grows = true; grows;) {
    grows = false;
    for (const common::ProcessStat& process : all) {
      if (!family.contains(process.ppid) || !family.insert(process.pid).second) continue;
      grows = true;
      if (process.state != 'Z' && process.state != 'X') live.push_back(process.pid);
    }
  }
  return live;
}

// `kill_all`: whether it found some. /proc is read entry by entry while processes may start others, and one that executes
// another program has no environment for a moment: only two empty results in a row count.
template <typename KillAll>
void UntilNoneIsLeft(const KillAll& kill_all) {
  int empty = 0;
  for (int round = 0; round < kKillRoundsMax && empty < 2; ++round) {
    empty = kill_all() ? 0 : empty + 1;
    if (empty < 2) poll(nullptr, 0, kKillPauseMs);
  }
}

}  // namespace

int SignalMarked(const ProcessMark& mark, pid_t leader, int signal) {
  int count = 0;
  for (const common::ProcessStat& process : common::ListProcesses()) {
    if (process.state == 'Z' || process.state == 'X') continue;
    if (process.session != leader &&
        common::EnvironValue(process.pid, mark.variable) != mark.value) {
      continue;
    }
    kill(process.pid, signal);
    ++count;
  }
  return count;
}

void KillMarked(const ProcessMark& mark, pid_t leader) {
  if (leader > 0) kill(-leader, SIGKILL);  // at once, without a search
  UntilNoneIsLeft([&] { return SignalMarked(mark, leader, SIGKILL) > 0; });
}

void KillBelow(pid_t leader) {
  kill(leader, SIGSTOP);
  AwaitStop(leader);
  UntilNoneIsLeft([&] {
    const std::vector<pid_t> below = LiveBelow(leader);
    for (const pid_t pid : below) kill(pid, SIGKILL);
    return !below.empty();
  });
  kill(leader, SIGKILL);
}

void KillMarkedBefore(const std::string& variable, std::string_view end) {
  for (const common::ProcessStat& process : common::ListProcesses()) {
    if (common::EnvironValue(process.pid, variable).ends_with(end)) KillBelow(process.pid);
  }
}

}  // namespace muster::worker
