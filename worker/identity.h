// Who this worker is: the incarnation that fences it, the boot it knows, the highest epoch it
// obeyed, and where all that is kept. In the state directory, with a checksum: a flipped bit or a
// copied directory must not speak with the first one's voice. Control loop's thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/paths.h"

namespace muster::worker {

struct Identity {
  uint64_t incarnation = 0;  // new when the state is missing, damaged or another worker's
  uint64_t highest_epoch = 0;
  std::string boot_id;
  std::string machine_id;
  std::string node;       // its name
  std::string state_dir;  // its true path, and which file it is: a copy is another one
  uint64_t device = 0;
  uint64_t inode = 0;
};

struct LoadedIdentity {
  Identity identity;
  bool kept = false;  // else it is a new incarnation, and the directory's attempts are not its own
  bool new_boot = false;  // the machine was started anew since; a lost boot id proves nothing
  std::string why_new;    // when not kept
};

// Reads the identity, or makes a new one, and writes it durably. A file of an older version,
// without a checksum, is taken at its word once.
absl::StatusOr<LoadedIdentity> LoadIdentity(const Paths& paths, const std::string& node,
                                            int64_t wall_us);
absl::Status SaveIdentity(const Paths& paths, const Identity& identity);

// When the coordinator was last heard, on the boot-time clock; survives a crash of the worker, not
// of the node.
void SaveContact(const Paths& paths, int64_t mono_ms);
// 0 when unknown.
int64_t LoadContact(const Paths& paths);

// /proc/sys/kernel/random/boot_id; /etc/machine-id (empty when there is none).
std::string BootId();
std::string MachineId();
std::string HostName();

}  // namespace muster::worker
