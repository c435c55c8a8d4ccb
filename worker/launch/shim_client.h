// The worker's end of one shim: starts or adopts it, turns its packets into events, sends it
// orders. One thread at a time. Never forks (posix_spawn only), and blocks only in functions whose
// comment states it.
//
//   auto shim = ShimClient::Spawn(binary, launch, held_port_fds);     // or Adopt(attempt_dir)
//   after a restart poll(shim->fd()) → shim->Read() → events … ; once gone():
//   ReadExitRecord(attempt_dir), and if there is none: KillAttempt(attempt_dir) and report that
//   the supervisor was lost.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/files.h"
#include "common/kernel/kill_ladder.h"
#include "common/kernel/shim_protocol.h"

namespace muster::worker {

struct RankStarted {
  uint32_t rank = 0;
  pid_t pid = 0;
  uint64_t start_time = 0;
};
// Everything that the rank had written when it was reaped is in its spool before this is sent.
using RankExited = common::RankExitRecord;
// The stream is complete: file and index will not change anymore.
using StreamClosed = common::StreamEndRecord;
struct SpoolGrew {};
struct ShimEnded {
  std::string how;
};
using ShimEvent = std::variant<RankStarted, RankExited, StreamClosed, SpoolGrew, ShimEnded>;

class ShimClient {
 public:
  // Writes <attempt_dir>/shim.launch (not synced: after a power failure the boot id already shows
  // that the attempt is dead), locks it and spawns `shim_binary` in a separate session. The shim
  // gets duplicates of `held_port_fds`; the caller may close its own afterwards. Errors:
  // ALREADY_EXISTS if a shim of this attempt was ever spawned before (never two),
  // RESOURCE_EXHAUSTED and others with path and reason.
  static absl::StatusOr<std::unique_ptr<ShimClient>> Spawn(const std::string& shim_binary,
                                                           common::ShimLaunch launch,
                                                           const std::vector<int>& held_port_fds);

  // Connects to the shim of this attempt that an earlier worker spawned, which then sends its full
  // history, starting with RankStarted. NOT_FOUND: no shim is alive (see ReadExitRecord);
  // UNAVAILABLE: it is alive but did not listen within `timeout_ms` (blocks that long only in the
  // moment between its spawn and its first poll).
  static absl::StatusOr<std::unique_ptr<ShimClient>> Adopt(const std::string& attempt_dir,
                                                           int timeout_ms = 2000);
  ~ShimClient();
  ShimClient(const ShimClient&) = delete;
  ShimClient& operator=(const ShimClient&) = delete;

  // Readable when Read has something to return. -1 when gone().
  int fd() const { return connection_.get(); }
  // The events that arrived since the last call; may be empty. Reaps the shim when it is gone.
  absl::StatusOr<std::vector<ShimEvent>> Read();
  // The shim closed the connection: it exited (ShimEnded was delivered, or the exit record exists)
  // or was killed.
  bool gone() const { return !connection_.valid(); }

  // Orders. They are lost if the shim is gone, which is not an error: its end was their purpose, or
  // is being reported.
  void Stop(uint32_t grace_ms);
  void Signal(int signal);
  // The shim stops its ranks on its own at this time (CLOCK_BOOTTIME), with the launch's grace; 0:
  // never.
  void MoveFence(int64_t fence_mono_ms);
  // Bytes below `offset` and the first `index_records` index records are durable elsewhere; frees
  // quota and disk.
  void Trim(uint32_t rank, common::Stream stream, uint64_t offset, uint64_t index_records);
  // Answers SpoolGrew: from now on the next growth is reported again. Call it BEFORE reading the
  // spool.
  void SpoolSeen();

  // Sends a liveness check. False if the shim is too old for it.
  bool Ping();
  // True once after packets arrived: the shim is alive.
  bool TakeHeard() { return std::exchange(heard_, false); }

  const common::ShimLaunch& launch() const { return launch_; }
  pid_t pid() const { return pid_; }  // 0 until an adopted shim has reported it

 private:
  ShimClient(common::ShimLaunch launch, common::UniqueFd connection, pid_t pid, bool child);
  void Send(const common::ShimPacket& packet);
  void Close();

  common::ShimLaunch launch_;
  common::UniqueFd connection_;
  pid_t pid_ = 0;
  bool child_ = false;  // ours to reap
  bool heard_ = false;
  uint32_t version_ = 0;  // of the shim; 0 until reported, and orders to an adopted one wait for it
  std::vector<common::ShimPacket>
      unsent_;  // the socket's buffer was full; at most a few trims and one of each order
};

// The path of an attempt's launch file.
std::string LaunchPath(const std::string& attempt_dir);
// The launch file of an attempt. NOT_FOUND if it was never launched here.
absl::StatusOr<common::ShimLaunch> ReadShimLaunch(const std::string& attempt_dir);
// NOT_FOUND: the shim has not written one (it is alive, or was killed).
absl::StatusOr<common::ExitRecord> ReadExitRecord(const std::string& attempt_dir);
// True while the shim's process exists (the lock on its launch file is held), even before it
// listens.
bool ShimLives(const std::string& attempt_dir);

// Kills whatever is left of an attempt whose shim is dead or does not answer: the shim itself, the
// cgroup, then every process with the attempt's mark. Blocks until nothing is found, at most
// `timeout_ms`; usually 1-5 ms. Without a launch file nothing was ever started, which is a success.
// Result: see common/kernel/kill_ladder.h.
common::KillResult KillAttempt(const std::string& attempt_dir, int timeout_ms = 10000);
// The same with the original launch, whatever the file contains by now.
common::KillResult KillAttempt(const std::string& attempt_dir, const common::ShimLaunch& launch,
                               bool same_boot, int timeout_ms);

// Kills the ranks of an attempt at once and directly, as its shim may not be running; the shim still has
// to prove the end. May block for a moment.
void KillRanks(const std::string& attempt_dir, const common::ShimLaunch& launch);

// A new mark for (job, attempt): "<job>-<attempt>-<16 random hex digits>-<node tag>".
std::string NewAttemptMark(uint64_t job, uint32_t attempt, const std::string& node_tag);
// Distinguishes attempts of this node in this cluster from those of other workers on the host.
std::string NodeTag(const std::string& cluster, const std::string& node);
// One sentence for a rank that could not be started, naming node, value and fix.
std::string DescribeLaunchError(const RankExited& exit, const common::RankLaunch& rank,
                                const std::string& node);

}  // namespace muster::worker
