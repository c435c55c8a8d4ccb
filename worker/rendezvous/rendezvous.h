// Where the ranks of an attempt find each other. There can be several kinds; today the only one is the
// store that torch's rank 0 opens on a port that its node keeps free. Each kind is one file here and one
// row in kinds.cc. Code outside this folder knows only that a node offers a rendezvous before any rank
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
};

struct RendezvousKind {
  // Called before any rank starts anywhere. Null: the attempt needs no rendezvous on this node.
  // RESOURCE_EXHAUSTED: others on the node have used up what it needs; names the fix.
  absl::StatusOr<std::unique_ptr<Rendezvous>> (*open)(const v1::PrepareAttempt& order,
                                                      PortHolder& ports);
  // Tells the ranks of this node: sets variables of their environment.
  void (*tell)(const v1::LaunchAttempt& launch, std::map<std::string, std::string>* environment);
};

// kinds.cc
const RendezvousKind& RendezvousOf(const v1::PrepareAttempt& order);
const RendezvousKind& RendezvousOf(const v1::LaunchAttempt& launch);

}  // namespace muster::worker
