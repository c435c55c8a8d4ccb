// The peer of each connection, by its descriptor: gRPC reports only "fd:N" for connections that
// were handed to it. Written before the hand-over; gRPC closes the descriptor when the last call of
// the connection is gone, so no call ever sees the next owner of the number. Any thread.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>

namespace muster::coordinator {

class Peers {
 public:
  void Set(int fd, std::string principal);
  // For "fd:N"; for anything else, the text itself after "peer:".
  std::string PrincipalOf(const std::string& peer) const;

 private:
  mutable std::mutex mutex_;  // guards what follows
  std::unordered_map<int, std::string> principals_;
};

}  // namespace muster::coordinator
