// Accepts connections and hands them to gRPC once the client has begun to speak HTTP/2. gRPC's own
// acceptor gives up when descriptors run out and lets silent connections stay; here their number is
// bounded, those that say nothing are closed, and a descriptor in reserve turns away what cannot be
// taken. On a unix socket the kernel tells who connects. Owns one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "common/files.h"
#include "coordinator/said_rarely.h"
#include "coordinator/services/peers.h"

namespace muster::coordinator {

class Acceptor {
 public:
  // How long a connection may take to begin.
  static constexpr std::chrono::milliseconds kBeginWithin{10'000};

  // A socket that listens, and how many connections may come of it.
  struct Door {
    common::UniqueFd fd;
    bool is_unix = false;
    bool own_uid_only = false;  // of a unix socket: our own uid and root; others are turned away
    size_t most = 0;            // at once, served or not
  };
  // Takes ownership of the descriptor, whose principal the peers know. On the acceptor's thread.
  using HandOver = std::function<void(int fd)>;

  Acceptor(std::vector<Door> doors, Peers& peers, HandOver hand_over,
           std::chrono::milliseconds begin_within = kBeginWithin);
  ~Acceptor() { Stop(); }
  // No connection is handed over any more; those that wait are closed.
  void Stop();

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Waiting {
    common::UniqueFd fd;
    std::string principal;
    Time until;
    size_t door = 0;
    bool is_partial = false;  // has begun: poll would say so again and again
  };
  struct Served {
    uint64_t inode = 0;  // tells this connection from a later one with the same number
    size_t door = 0;
  };
  enum class Beginning { kNotYet, kPartial, kWhole, kWrong };
  static Beginning Look(int fd);

  void Run();
  // False: stopping.
  bool WaitForSomething(std::vector<bool>& open_doors);
  void AcceptFrom(size_t door);
  void Admit(common::UniqueFd fd, size_t door);
  // Makes room for one more. False: there is none.
  bool MakeRoom(size_t door);
  void TurnAwayWithReserve(size_t door);
  void LookAtWaiting();
  void Give(Waiting waiting);
  void ForgetClosed();
  size_t CountWaiting(size_t door) const;

  std::vector<Door> doors_;
  Peers& peers_;
  const HandOver hand_over_;
  const std::chrono::milliseconds begin_within_;
  common::UniqueFd wake_;
  common::UniqueFd reserve_;

  // The thread's.
  std::list<Waiting> waiting_;    // the oldest first
  std::map<int, Served> served_;  // by descriptor: a number that is used again replaces
  std::vector<size_t>
      served_of_door_;  // how many of them; closed ones count until they are forgotten
  Time may_forget_at_;
  Time deaf_until_;  // accepting cannot succeed before
  SaidRarely turned_away_;
  SaidRarely strangers_;
  std::thread thread_;
};

}  // namespace muster::coordinator
