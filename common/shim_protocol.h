// What a worker and its shims share: the launch file, the packets on the shim's socket, the index
// of a spool file and the exit record. No abseil, no exceptions, no threads: muster-shim links
// nothing else. Any thread; pure but for the two functions that say otherwise.
//
// A shim may be older than the worker that adopts it. So: packets and files carry kShimVersion,
// fields are only ever added, and both sides read what they know.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::common {

// 3: the launch file ends with a checksum; the shim answers kPing. 4: spool_patience_ms.
inline constexpr uint32_t kShimVersion = 4;
inline constexpr uint32_t kShimVersionMin = 2;  // of launch files and exit records that are read
inline constexpr uint32_t kShimAnswersSince = 3;
inline constexpr uint32_t kRanksPerShimMax = 4096;
inline constexpr size_t kLaunchFileBytesMax = 512u << 20;

// File names inside the attempt's directory.
inline constexpr char kLaunchFileName[] =
    "shim.launch";  // its flock is held exactly while the shim lives
inline constexpr char kShimStateName[] =
    "shim.state";  // pids, for KillAttempt; rewritten, never synced
inline constexpr char kExitRecordName[] = "exit";
inline constexpr char kShimLogName[] = "shim.log";  // the shim's own complaints; normally empty

// The variable that every process of an attempt carries in its environment: "<job>-<attempt>-<16
// hex digits>".
inline constexpr char kMarkVariable[] = "MUSTER_ATTEMPT_MARK";

// File descriptors that the worker hands to a shim. Held ports follow kFirstHeldPortFd.
inline constexpr int kWorkerConnectionFd = 3;
inline constexpr int kLaunchFileFd = 4;
inline constexpr int kFirstHeldPortFd = 5;

enum class Stream : uint32_t { kStdout = 0, kStderr = 1 };
inline constexpr int kStreams = 2;

// ---------------------------------------------------------------- launch file

struct RankLaunch {
  uint32_t rank = 0;
  uint32_t local_rank = 0;
  std::string program;  // absolute path that execve gets
  std::vector<std::string> argv;
  std::vector<std::string> env;  // "NAME=value", complete
  std::string workdir;
};

struct ShimLaunch {
  uint64_t job = 0;
  uint32_t attempt = 0;
  std::string mark;  // value of kMarkVariable in the env of the shim and of every rank
  std::string attempt_dir;
  std::string spool_dir;    // must exist; files rank-R.stdout, rank-R.stdout.idx, …
  std::string socket_path;  // where a returning worker connects
  std::vector<RankLaunch> ranks;
  uint32_t held_ports = 0;         // how many descriptors follow kFirstHeldPortFd
  std::string cgroup_dir;          // this attempt's own v2 cgroup, made by the worker; empty: none
  std::string freezer_dir;         // this attempt's own v1 freezer cgroup; empty: none
  uint64_t spool_quota_bytes = 0;  // 0: no quota
  // A full spool holds the ranks by their pipes while somebody takes from it (kTrim). When nothing
  // was taken for this long, or since the start, output is dropped and counted …
  uint32_t spool_patience_ms = 10'000;
  bool block_when_full = false;  // … or the ranks are held for as long as it takes
  bool no_new_privs =
      false;  // off: ranks run as the worker's user anyway, and sudo, ping and MPI helpers need it
  uint32_t term_grace_ms = 30000;  // grace when the shim itself gets SIGTERM
  // As kFence says: from the first moment on, also when the worker dies before its first packet.
  int64_t fence_mono_ms = 0;
};

std::string EncodeShimLaunch(const ShimLaunch& launch);
// False when it is cut short, damaged, of another version, or over a limit.
bool DecodeShimLaunch(std::string_view bytes, ShimLaunch* launch);

// "<spool_dir>/rank-R.stdout"; the index is that + ".idx".
std::string SpoolPath(const std::string& spool_dir, uint32_t rank, Stream stream);

// ---------------------------------------------------------------- spool index

// One drain of a pipe. The spool file holds the stream's bytes at their stream offsets. Records are
// appended after their bytes were written; a record of zeros (a hole) was trimmed. Native byte
// order: read on the same host only.
struct SpoolRecord {
  uint64_t offset;   // of the first byte of this record, in the stream and in the file
  uint64_t length;   // 0: only a mark of dropped bytes
  int64_t time_us;   // Unix microseconds when they were received
  uint64_t dropped;  // bytes lost just before `offset` (a hole in the file)
};
static_assert(sizeof(SpoolRecord) == 32);

// ---------------------------------------------------------------- packets

enum class PacketKind : uint32_t {
  // shim → worker. A new connection gets the whole story from the start: kHello, then everything
  // that has happened.
  kHello = 1,        // pid, start_time: the shim's; text: the mark
  kRankStarted = 2,  // rank, pid, start_time
  kRankExited =
      3,  // rank, exit_code, signal, flags, exec_errno, exec_stage, since_start_us, wall_ms
  kStreamClosed = 4,  // rank, stream, offset: its end, dropped: bytes lost in total. Index and file
                      // are complete
  kSpoolGrew = 5,     // sent once until kSpoolSeen answers
  kEnded =
      6,  // the exit record is written; text: how ("empty", or what survived); the shim exits now
  kPong = 7,  // answers kPing
  // worker → shim
  kStop = 32,    // grace_ms. A later stop can only shorten the deadline
  kSignal = 33,  // signal, to every rank that still runs: see SignalReachesGroup
  kTrim = 34,    // rank, stream, offset: bytes below are durable elsewhere; index_records: so are
                 // those records
  kSpoolSeen = 35,
  kFence = 36,  // offset: CLOCK_BOOTTIME milliseconds at which the shim stops its ranks by itself;
                // 0: never
  kPing = 37,   // to a shim of kShimAnswersSince or newer: are you there?
};

enum ExitFlags : uint32_t {
  kFlagOutOfMemory = 1,  // the kernel's counters say so
  kFlagStopped = 2,      // it ended after a stop was asked for
};

enum class ExecStage : int32_t { kNone = 0, kSetup = 1, kWorkdir = 2, kExec = 3, kFork = 4 };

// One SOCK_SEQPACKET datagram. Only the fields named at its kind mean something, the others are 0.
struct ShimPacket {
  uint32_t version = kShimVersion;
  PacketKind kind = PacketKind::kHello;
  uint32_t rank = 0;
  uint32_t stream = 0;
  int32_t pid = 0;
  int32_t exit_code = 0;
  int32_t signal = 0;
  int32_t exec_errno = 0;
  int32_t exec_stage = 0;
  uint32_t flags = 0;
  uint32_t grace_ms = 0;
  uint32_t reserved = 0;
  uint64_t offset = 0;
  uint64_t dropped = 0;
  uint64_t index_records = 0;
  uint64_t start_time = 0;     // clock ticks since boot, field 22 of /proc/PID/stat
  int64_t since_start_us = 0;  // monotonic, since the attempt's first rank was spawned here
  int64_t wall_ms = 0;
  char text[160] = {};
};
static_assert(sizeof(ShimPacket) == 256);

// ---------------------------------------------------------------- exit record

struct RankExitRecord {
  uint32_t rank = 0;
  int32_t pid = 0;        // 0: it was never forked
  int32_t exit_code = 0;  // 127/126 when exec failed
  int32_t signal = 0;
  int32_t exec_errno = 0;
  ExecStage exec_stage = ExecStage::kNone;
  bool out_of_memory = false;
  bool stopped = false;
  int64_t since_start_us = 0;
  int64_t wall_ms = 0;
};

struct StreamEndRecord {
  uint32_t rank = 0;
  Stream stream = Stream::kStdout;
  uint64_t end = 0;  // stream offset behind the last byte
  uint64_t dropped = 0;
};

// Text, one fact per line, last line "end": a person can read it, and a cut one is recognised.
struct ExitRecord {
  uint64_t job = 0;
  uint32_t attempt = 0;
  std::string mark;
  std::vector<RankExitRecord> exits;
  std::vector<StreamEndRecord> streams;
  std::string how;      // "empty": proven that nothing is alive
  std::string failure;  // why no rank could be started; empty: they were
};

// Job control and ending signals go to a rank's process group, others (USR1, …) to the rank's
// process alone, as `docker kill` does: data-loader processes with default actions must survive
// them.
bool SignalReachesGroup(int signal);

std::string EncodeExitRecord(const ExitRecord& record);
bool DecodeExitRecord(std::string_view text, ExitRecord* record);

}  // namespace muster::common
