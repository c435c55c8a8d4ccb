// The only signal handler of the SDK; see stop_signal.h.
#include "base/stop_signal.h"

#include <signal.h>

#include <atomic>

namespace muster {
namespace {

std::atomic<bool> received{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // safe in a signal handler

void note_signal(int) { received.store(true, std::memory_order_relaxed); }

}  // namespace

void watch_stop_signal() {
  struct sigaction current {};
  if (::sigaction(SIGTERM, nullptr, &current) != 0 || current.sa_handler != SIG_DFL) return;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGTERM, &action, nullptr);
}

bool stop_signal_received() { return received.load(std::memory_order_relaxed); }

}  // namespace muster
