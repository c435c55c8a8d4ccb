// Where the ranks of an attempt find each other. There are kinds of it: today the store that rank 0 of
// torch opens on a port that its node keeps free. Each kind is one file here and one row in kinds.cc;
// what is outside this folder knows that a node offers something before any rank starts anywhere, that
// a port leads there, and that ranks are told of it by variables.
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

// What this node offers to one attempt, from its preparation to its launch. Control loop's thread.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  // Where ranks of all nodes reach it.
  virtual uint16_t Port() const = 0;
  // What the attempt's shim keeps open for as long as ranks may come. It gets copies.
  virtual std::vector<int> Descriptors() const = 0;
};

struct RendezvousKind {
  // Before any rank starts anywhere. Null: ranks of other nodes need nothing of this one.
  // RESOURCE_EXHAUSTED: others on the node use up what it takes, with the fix.
  absl::StatusOr<std::unique_ptr<Rendezvous>> (*open)(const v1::PrepareAttempt& order,
                                                      PortHolder& ports);
  // Tells the ranks of this node: sets variables of their environment.
  void (*tell)(const v1::LaunchAttempt& launch, std::map<std::string, std::string>* environment);
};

// kinds.cc
const RendezvousKind& RendezvousOf(const v1::PrepareAttempt& order);
const RendezvousKind& RendezvousOf(const v1::LaunchAttempt& launch);

}  // namespace muster::worker
