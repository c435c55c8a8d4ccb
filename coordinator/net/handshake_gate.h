// Limits how many TLS handshakes may run at once, in total and per network: each costs 100 KB
// before anything is known of the client. Further connections wait without any TLS state; while
// they do, a handshake that takes longer than a client needs is closed. One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>

namespace muster::coordinator {

class HandshakeGate {
 public:
  using Id = uint64_t;
  using Time = std::chrono::steady_clock::time_point;
  struct Limits {
    // limit: connections: TLS handshakes at once on each of gRPC's and HTTPS's ports; others wait
    size_t most = 128;
    // limit: connections: the same of one address or IPv6 /64
    size_t most_of_network = 16;
    // limit: connections: a handshake without progress; it is closed for one that waits
    std::chrono::milliseconds timeout{1'000};
  };
  HandshakeGate() : HandshakeGate(Limits()) {}
  explicit HandshakeGate(const Limits& limits) : limits_(limits) {}

  struct Verdict {
    bool may_begin = false;
    // If it may not begin: a handshake whose time is over. Close it and ask again.
    std::optional<Id> to_close;
  };
  // Whether one more connection of this network may begin (see NetworkOf).
  Verdict Ask(std::string_view network, Time now) const;
  // Only after Ask has allowed it.
  void Begin(Id id, std::string network, Time now);
  // May also be called for an unknown connection.
  void End(Id id);
  void EndIf(const std::function<bool(Id, Time since)>& is_over);

 private:
  struct Going {
    Id id = 0;
    std::string network;
    Time since;
  };
  const Limits limits_;
  std::list<Going> going_;  // the oldest first
};

// True if the client will send nothing more, so that a handshake would be in vain.
bool HasClientLeft(int fd);

}  // namespace muster::coordinator
