// Who this worker is: the incarnation that fences it, the boot it knows, the highest epoch it
// obeyed. Kept in the state directory. Control loop's thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/paths.h"

namespace muster::worker {

struct Identity {
  uint64_t incarnation = 0;  // new when the state is missing, unreadable or another machine's
  uint64_t highest_epoch = 0;
  std::string boot_id;
  std::string machine_id;
};

struct LoadedIdentity {
  Identity identity;
  bool new_boot = false;  // the attempts in the state directory are dead
};

// Reads the identity, or makes a new one, and writes it durably when something in it changed.
absl::StatusOr<LoadedIdentity> LoadIdentity(const Paths& paths, int64_t wall_us);
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
