// This worker's identity: the incarnation that fences it, the boot it knows, the highest epoch it
// has accepted, and where that is stored. Kept in the state directory with a checksum: a file with a
// flipped bit, or in a copied directory, must not pass for the original. Control loop's thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/base/paths.h"

namespace muster::worker {

struct Identity {
  uint64_t incarnation = 0;  // new if the state is missing, damaged or another worker's
  uint64_t highest_epoch = 0;
  std::string boot_id;
  std::string container;  // see ContainerId
  std::string machine_id;
  std::string node;       // its name
  std::string state_dir;  // its real path and inode: a copy differs
  uint64_t device = 0;
  uint64_t inode = 0;
};

struct LoadedIdentity {
  Identity identity;
  bool kept = false;  // otherwise a new incarnation, and the directory's attempts are not its own
  bool new_boot = false;       // the machine has rebooted since; a lost boot id proves nothing
  bool new_container = false;  // the same, of the container: no process outlived it
  std::string why_new;         // if not kept
};

// Reads the identity, or creates a new one, and writes it durably. A file from an older version,
// without a checksum, is trusted once.
absl::StatusOr<LoadedIdentity> LoadIdentity(const Paths& paths, const std::string& node,
                                            int64_t wall_us);
absl::Status SaveIdentity(const Paths& paths, const Identity& identity);

// When the coordinator was last heard from, on the boot-time clock; survives a crash of the worker,
// not of the node.
void SaveContact(const Paths& paths, int64_t mono_ms);
// 0 if unknown.
int64_t LoadContact(const Paths& paths);

// /proc/sys/kernel/random/boot_id; /etc/machine-id (empty if there is none).
std::string BootId();
// Which PID namespace this is and when its process 1 started: constant while a machine or a
// container runs. Empty if process 1 is not visible.
std::string ContainerId();
std::string MachineId();
std::string HostName();

}  // namespace muster::worker
