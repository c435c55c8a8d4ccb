// jobctl cluster up and down over ssh: a coordinator on the head, a worker on every node, and nothing
// else on them, nor anything left afterwards. Main thread; up to 16 threads work on nodes at once.
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
// All nodes or none: a failed start removes what it made on them. JC1804 to JC1807 name the node.
absl::Status BringUpOverSsh(Session& session, const SshUp& up);
// Removes the cluster from the nodes, without waiting for what runs there. JC1808 names the nodes that
// could not be cleaned; the record keeps those.
absl::Status TakeDownOverSsh(Session& session, ClusterRecord record);

}  // namespace muster::client::cluster
