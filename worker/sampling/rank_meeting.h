// Determines whether the ranks of an attempt have met, as far as that is visible from outside: a process group
// listens on MASTER_PORT, and its ranks connect to it or to each other, or, as MPI's do within a node, write
// into the same shared memory. Reads /proc; bounded. One thread at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::worker {

// A row of /proc/net/tcp or tcp6.
struct SocketRow {
  std::string local;  // "ADDRESS:PORT" in the kernel's hexadecimal
  std::string remote;
  bool listens = false;
  bool connected = false;
  uint64_t inode = 0;

  uint32_t LocalPort() const;
  uint32_t RemotePort() const;
};
// Rows that cannot be read are left out.
std::vector<SocketRow> ParseSockets(std::string_view text);

// The files ("DEVICE INODE") that a process has mapped shared and writable, from its /proc/PID/maps:
// shared memory of every kind is a file to the kernel. Leaves out device files, which unrelated processes
// map, too.
std::vector<std::string> ParseSharedMemory(std::string_view maps);

class RankMeeting {
 public:
  using Processes = std::vector<std::pair<uint32_t, pid_t>>;  // rank, process

  // `proc`: tests pass their own.
  explicit RankMeeting(uint32_t master_port, std::string proc = "/proc")
      : master_port_(master_port), proc_(std::move(proc)) {}

  bool IsSeen() const { return is_seen_; }
  // Called once a second; looks less often when nothing is seen for a long time.
  void Look(const Processes& processes);

 private:
  static constexpr size_t kTableBytesMax = 4 << 20;
  static constexpr size_t kDescriptorsMax = 4'096;  // in a look, of all processes
  static constexpr size_t kMapsBytesMax = 4 << 20;  // in a look, of all processes
  static constexpr uint32_t kLooksOften = 30;
  static constexpr uint32_t kThenEvery = 10;

  // Two ranks on this node have the two ends of one connection.
  bool AreConnected(const std::vector<SocketRow>& rows, const Processes& processes) const;
  bool ShareMemory(const Processes& processes) const;

  const uint32_t master_port_;
  const std::string proc_;
  uint32_t looks_ = 0;
  bool is_seen_ = false;
};

}  // namespace muster::worker
