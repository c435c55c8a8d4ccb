// The ranks of this node: their connections, which come to a port of each rank on the loopback interface. Only the
// attempt's account gets in. The loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/kernel/rendezvous_status.h"
#include "rendezvous/loop.h"
#include "rendezvous/requests.h"
#include "rendezvous/stream.h"

namespace muster::rendezvous {

using ClientId = uint64_t;

// What answers the ranks' requests: the values themselves, or the way to them.
class Backend {
 public:
  virtual ~Backend() = default;
  // Every kind of request but kValidate, kPing and kCancelWait. `raw` is the whole request. To be answered by
  // Clients::Answer, at once or later, if request.IsAnswered(); the client sends no other meanwhile.
  virtual void Ask(ClientId client, const Request& request, std::string_view raw) = 0;
  // The client gave up its wait or barrier, or is gone.
  virtual void Abandon(ClientId client) = 0;
};

class Clients {
 public:
  // `status` has an entry for each local rank; null: it is not published.
  Clients(Loop& loop, Backend& backend, common::RankAtStore* status);
  ~Clients();
  Clients(const Clients&) = delete;

  // Listens on a socket that is bound. `index`: of the rank on this node. `account`: the only one, besides root, whose
  // processes get in.
  void Listen(common::UniqueFd socket, uint32_t index, uint32_t account);
  // Ignored if the client is gone.
  void Answer(ClientId client, std::string_view answer);
  // Closes its connection, and logs why.
  void Refuse(ClientId client, std::string_view why);
  // Ends the waits of now, because no rank is left that could end them: marks them in the status, and closes their
  // connections some seconds later, since a rank that exits at once is not looked at any more.
  void EndWaits();
  void CloseAll();
  // Updates what the status says of waits.
  void Tick(int64_t now_ms);
  // The rank's process has exited.
  void RankExited(uint32_t index);

  // How many ranks of this node have exited, and how many only wait.
  struct Counts {
    uint32_t exited = 0;
    uint32_t stuck = 0;
  };
  Counts Count() const;

 private:
  class Client;
  struct Rank {
    uint32_t connections = 0;
    int64_t wrote_ms = 0;  // its last request that may end another rank's wait
    bool has_joined = false;
    bool has_exited = false;
  };

  void Joined(uint32_t index);
  void Closed(Client& client, std::string_view why);
  void Admit(common::UniqueFd fd, uint32_t index, uint32_t account);
  // Of each rank, the connection that has waited longest; null: none waits.
  std::vector<const Client*> LongestWaits() const;
  void Publish(uint32_t index);
  void CloseWaits();

  Loop& loop_;
  Backend& backend_;
  common::RankAtStore* const status_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  std::vector<Rank> ranks_;
  absl::flat_hash_map<ClientId, std::unique_ptr<Client>> clients_;
  ClientId last_id_ = 0;
  int64_t now_ms_ = 0;
  int64_t end_waits_ms_ = 0;  // when to close them; 0: nothing is to be ended
};

}  // namespace muster::rendezvous
