// The programs beside jobctl, packed for nodes that do not have them.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace muster::client::cluster {

struct ProgramArchive {
  std::string bytes;  // .tar.gz with bin/
  uint64_t unpacked_bytes = 0;
};
// The programs that a worker needs, and with `coordinator` also that one. JC1305: one is missing here.
absl::StatusOr<ProgramArchive> PackPrograms(bool coordinator);

}  // namespace muster::client::cluster
