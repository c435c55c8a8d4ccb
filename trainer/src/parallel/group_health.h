// Whether a group is still usable. Its ranks count calls, and after a failed call they no longer
// know which call the others are at: the next sum could mix unrelated values. The first failure
// therefore ends the group, on all ranks. Without LibTorch.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "parallel/connections.h"
#include "parallel/shared_calls.h"

namespace muster {

class GroupHealth {
 public:
  // Call before the first collective. Sets the group's connections, which reveal a lost rank, and
  // the shared memory in which its ranks compare their calls; null if they share none.
  void set_connections(std::vector<SocketIdentity> connections) {
    connections_ = std::move(connections);
  }
  const std::vector<SocketIdentity>& connections() const { return connections_; }
  void set_calls(std::unique_ptr<SharedCalls> calls) { calls_ = std::move(calls); }
  SharedCalls* calls() const { return calls_.get(); }

  // Fails the group: no call waits in it any longer, here or on the other ranks. Keeps the first
  // reason and returns it. Any thread.
  std::string fail(const std::string& reason) noexcept;
  // Why the group failed, on any rank as far as known here; "" while it works. Any thread.
  std::string failure() const;
  // Why waiting for the other ranks is pointless; "" if it is not.
  std::string trouble() const;

 private:
  std::vector<SocketIdentity> connections_;
  std::unique_ptr<SharedCalls> calls_;

  mutable std::mutex mutex_;  // guards the members below
  std::string failure_;
};

}  // namespace muster
