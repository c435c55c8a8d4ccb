#include "worker/marked_processes.h"

#include <poll.h>
#include <signal.h>

#include "common/process.h"

namespace muster::worker {
namespace {

constexpr int kKillRoundsMax = 100;
constexpr int kKillPauseMs = 10;

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
  for (int round = 0; round < kKillRoundsMax; ++round) {
    if (SignalMarked(mark, leader, SIGKILL) == 0) return;
    poll(nullptr, 0, kKillPauseMs);
  }
}

void KillMarkedBefore(const std::string& variable, std::string_view end) {
  for (const common::ProcessStat& process : common::ListProcesses()) {
    if (common::EnvironValue(process.pid, variable).ends_with(end)) kill(process.pid, SIGKILL);
  }
}

}  // namespace muster::worker
