// Where the ranks of an attempt find each other. There are two kinds: the store that torch's rank 0 opens on a
// port that its node keeps free, and Muster's. Each kind is one file here and one row in kinds.cc. Code outside this folder knows only that a node offers a rendezvous before any rank
// starts anywhere, that it has a port, and that ranks learn of it from environment variables.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/rendezvous/port_holder.h"

namespace muster::worker {

// The rendezvous that this node offers to one attempt, from its preparation to its launch. Control
// loop's thread.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  // The port on which ranks of all nodes reach it.
  virtual uint16_t Port() const = 0;
  // The descriptors of which the attempt's shim gets copies, and that it keeps open as long as ranks may
  // connect.
  virtual std::vector<int> Descriptors() const = 0;
  // What other nodes must show; empty: nothing.
  virtual std::string Secret() const { return {}; }
};

// Sockets of this node on which its ranks reach the rendezvous, one for each. Empty: ranks need none.
struct RankSockets {
  std::vector<uint16_t> ports;
  std::vector<common::UniqueFd> sockets;
};

struct RendezvousKind {
  // Called before any rank starts anywhere. Null: the attempt needs no rendezvous on this node.
  // RESOURCE_EXHAUSTED: others on the node have used up what it needs; names the fix.
  absl::StatusOr<std::unique_ptr<Rendezvous>> (*open)(const v1::PrepareAttempt& order,
                                                      PortHolder& ports);
  // Called at the launch. RESOURCE_EXHAUSTED as above.
  absl::StatusOr<RankSockets> (*listen)(const v1::LaunchAttempt& launch);
  // Tells a rank of this node: sets variables of its environment.
  void (*tell)(const v1::LaunchAttempt& launch, const std::vector<uint16_t>& rank_ports,
               uint32_t local_rank, std::map<std::string, std::string>* environment);
  // Settings of muster-rendezvous, which the shim starts beside the ranks: the shim gets `offered` descriptors of
  // open(), then `sockets` of listen(). Empty: it starts none.
  std::string (*settings)(const v1::LaunchAttempt& launch, size_t offered, size_t sockets);
};

// kinds.cc
const RendezvousKind& RendezvousOf(const v1::PrepareAttempt& order);
const RendezvousKind& RendezvousOf(const v1::LaunchAttempt& launch);

}  // namespace muster::worker
