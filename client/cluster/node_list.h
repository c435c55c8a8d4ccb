// The machines of a cluster as users type them: "a,user@b,c:2222,node[01-04]". The names become part of
// command lines and paths, so anything but a plain name is refused. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::client::cluster {

inline constexpr size_t kNodesMost = 256;

struct SshNode {
  std::string name;  // in the cluster: the host, with its port if several share it
  std::string user;  // empty: as ssh decides
  std::string host;
  uint32_t port = 0;  // 0: as ssh decides

  bool operator==(const SshNode&) const = default;
};

// Errors: JC1801, naming the word.
absl::StatusOr<std::vector<SshNode>> ParseSshNodes(std::string_view list);

// Letters, digits and "/._+@-", no "..", at most 200 bytes, as it is written into scripts. JC1801.
absl::Status CheckDirectory(std::string_view directory);

}  // namespace muster::client::cluster
