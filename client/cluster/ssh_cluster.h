// jobctl cluster up and down over ssh: a coordinator on the head, a worker on every node, nothing else
// on them and nothing left afterwards. Main thread; nodes are worked on by up to 16 threads at once.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "client/cluster/record.h"

namespace muster::client {
class Session;
}

namespace muster::client::cluster {

struct SshUp {
  ClusterRecord record;
  uint32_t port = 0;    // of gRPC on the head; HTTPS has the next one
  std::string devices;  // of each worker; empty: all
  std::string sandbox;  // "on", "none"; empty: on where the account is not root
};
// All nodes or none: what a failed start left on them is removed again. JC1804 to JC1807 name the
// node.
absl::Status BringUpOverSsh(Session& session, const SshUp& up);
// Removes it from the nodes, at once whatever runs there. JC1808 names the nodes that could not be
// cleaned: the record then has those.
absl::Status TakeDownOverSsh(Session& session, ClusterRecord record);

}  // namespace muster::client::cluster
