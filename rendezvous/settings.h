// What muster-rendezvous is to do, as the shim writes it to its standard input: lines of words, so that a secret is
// never on a command line.
//
//   secret HEX            of the attempt; only with several nodes
//   nodes N
//   world N               ranks of the attempt
//   listen FD             a bound socket for other nodes: this node has the store
//   upstream ADDRESS PORT another node has it
//   account UID           whose processes get in on this node
//   local FD              a bound socket on the loopback interface, for the next rank of this node
//   status FD             a file of a common::RankAtStore for each of these
//   exits FD              a pipe: u32 index of each rank of this node that has exited
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::rendezvous {

struct Settings {
  std::string secret;
  uint32_t nodes = 1;
  uint32_t world = 1;
  int listen = -1;
  std::string upstream;  // empty: this node has the store
  uint16_t port = 0;
  uint32_t account = 0;
  std::vector<int> locals;
  int status = -1;
  int exits = -1;
};

// INVALID_ARGUMENT names the line.
absl::StatusOr<Settings> ParseSettings(std::string_view text);

}  // namespace muster::rendezvous
