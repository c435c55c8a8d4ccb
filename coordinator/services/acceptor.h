// Accepts connections and hands them to gRPC once the client starts speaking HTTP/2 or TLS. gRPC's own acceptor
// fails when descriptors run out and keeps silent connections; here their number is bounded, silent ones are
// closed, and a reserve descriptor is used to reject connections that cannot be accepted. A limited number of
// TLS handshakes run at once; further connections wait here. On a unix socket the kernel identifies the peer.
// Owns one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/files/files.h"
#include "coordinator/base/rate_limited_log.h"
#include "coordinator/net/handshake_gate.h"
#include "coordinator/services/peers.h"

namespace muster::coordinator {

class Acceptor {
 public:
  // How long a connection may take to send its preface.
  // limit: connections: how long a connection may send nothing; it is closed
  static constexpr std::chrono::milliseconds kBeginWithin{10'000};

  // A listening socket, and how many connections it may have.
  struct Listener {
    common::UniqueFd fd;
    bool is_unix = false;
    bool own_uid_only = false;  // for a unix socket: accept only our own uid and root
    bool is_tls = false;
    size_t most = 0;  // at once, served or not
  };
  // Takes ownership of the descriptor, whose principal `peers` already knows. On the acceptor's
  // thread.
  using HandOver = std::function<void(int fd, const Listener& from)>;

  Acceptor(std::vector<Listener> listeners, Peers& peers, HandOver hand_over,
           std::chrono::milliseconds begin_within = kBeginWithin);
  ~Acceptor() { Stop(); }
  // Stops handing over connections, and closes waiting ones.
  void Stop();

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Waiting {
    common::UniqueFd fd;
    std::string principal;
    std::string network;  // see NetworkOf
    Time until;
    size_t listener = 0;
    bool is_partial = false;  // part of the preface arrived: poll would report it repeatedly
    bool is_held = false;     // the client has begun, and waits for its handshake
  };
  struct Served {
    uint64_t inode = 0;  // distinguishes this connection from a later one with the same descriptor
    size_t listener = 0;
  };
  enum class Beginning { kNotYet, kPartial, kWhole, kWrong };
  static Beginning Look(int fd, bool is_tls);

  void Run();
  // False: stopping.
  bool WaitForSomething(std::vector<bool>& ready_listeners);
  void AcceptFrom(size_t listener);
  void Admit(common::UniqueFd fd, size_t listener);
  // Makes room for one more. False: not possible.
  bool MakeRoom(size_t listener);
  void TurnAwayWithReserve(size_t listener);
  void LookAtWaiting();
  // Whether TLS may begin on it. If so, it is counted until its certificate is known.
  bool MayShakeHands(const Waiting& waiting);
  void EndHandshakes(Time now);
  void Give(Waiting waiting);
  void ForgetClosed();
  size_t CountWaiting(size_t listener) const;

  std::vector<Listener> listeners_;
  Peers& peers_;
  const HandOver hand_over_;
  const std::chrono::milliseconds begin_within_;
  common::UniqueFd wake_;
  common::UniqueFd reserve_;

  // Used by the thread only.
  std::list<Waiting> waiting_;    // the oldest first
  std::map<int, Served> served_;  // by descriptor: a reused number replaces the entry
  std::vector<size_t>
      served_of_listener_;      // how many of them; closed ones count until they are forgotten
  HandshakeGate gate_;          // by descriptor
  std::set<std::string> full_;  // networks of which no handshake may begin in this turn
  std::map<int, std::string> shaking_;  // gRPC's names of the connections that the gate has let in
  Time may_forget_at_;
  Time deaf_until_;  // accepting cannot succeed before
  RateLimitedLog turned_away_;
  RateLimitedLog strangers_;
  std::thread thread_;
};

}  // namespace muster::coordinator
