// Whether a group can still be used. Its ranks count calls, and after a failed one they no longer
// know which call the others are at: the next sum would mix values that do not belong together. So
// the first failure ends the group, on all ranks. Without LibTorch.
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
  // Before the first collective. The group's connections, by which a lost rank is noticed, and the
  // memory through which its ranks compare their calls; null where they share none.
  void set_connections(std::vector<SocketIdentity> connections) {
    connections_ = std::move(connections);
  }
  const std::vector<SocketIdentity>& connections() const { return connections_; }
  void set_calls(std::unique_ptr<SharedCalls> calls) { calls_ = std::move(calls); }
  SharedCalls* calls() const { return calls_.get(); }

  // Ends the group: nobody waits in it any more, here or on the other ranks. The first reason
  // stays; returns it. Any thread.
  std::string fail(const std::string& reason) noexcept;
  // Why the group failed, on any rank as far as that is known here; "" while it works. Any thread.
  std::string failure() const;
  // Why there is no point in waiting for the other ranks; "" while there is one.
  std::string trouble() const;

 private:
  std::vector<SocketIdentity> connections_;
  std::unique_ptr<SharedCalls> calls_;

  mutable std::mutex mutex_;  // guards what follows
  std::string failure_;
};

}  // namespace muster
