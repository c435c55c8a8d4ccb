// What a worker and its shims share: the launch file, the packets on the shim's socket, the index
// of a spool file and the exit record. No abseil, no exceptions, no threads: muster-shim links
// nothing else. Any thread; pure, except for two functions as their comments state.
//
// A shim may be older than the worker that adopts it, so packets and files carry kShimVersion,
// fields are only ever added, and each side reads what it knows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::common {

// 3: the launch file ends with a checksum; the shim answers kPing. 4: spool_patience_ms. 5:
// limit_dirs. 6: account, sandbox. 7: container. 8: has_own_ipc, has_own_processes, secrets_dir,
// places. 9: rendezvous.
inline constexpr uint32_t kShimVersion = 9;
inline constexpr uint32_t kShimVersionMin =
    2;  // the oldest launch files and exit records that are read
inline constexpr uint32_t kShimAnswersSince = 3;
inline constexpr uint32_t kRanksPerShimMax = 4096;
inline constexpr size_t kLaunchFileBytesMax = 512u << 20;

// File names in the attempt's directory.
inline constexpr char kLaunchFileName[] =
    "shim.launch";  // its flock is held exactly while the shim is alive
inline constexpr char kShimStateName[] =
    "shim.state";  // pids, for KillAttempt; rewritten, never synced
inline constexpr char kExitRecordName[] = "exit";
inline constexpr char kShimLogName[] = "shim.log";  // the shim's own errors; normally empty

// Set in the environment of every process of an attempt: "<job>-<attempt>-<16 hex digits>".
inline constexpr char kMarkVariable[] = "MUSTER_ATTEMPT_MARK";

// File descriptors that a shim inherits from the worker. Held ports start at kFirstHeldPortFd.
inline constexpr int kWorkerConnectionFd = 3;
inline constexpr int kLaunchFileFd = 4;
inline constexpr int kFirstHeldPortFd = 5;

// muster-shim also reports which means of the sandbox this host has, one line each: a name, a tab, and the
// reason if it is not available …
inline constexpr char kProbeArgument[] = "--probe";
inline constexpr char kMeansMounts[] = "mounts";
inline constexpr char kMeansCapabilities[] = "capabilities";
inline constexpr char kMeansNoNewPrivs[] = "no_new_privs";
inline constexpr char kMeansCallFilter[] = "calls";
inline constexpr char kMeansDomain[] = "domain";
inline constexpr char kMeansIpc[] = "ipc";
inline constexpr char kMeansProcesses[] = "processes";
// … and becomes a command that is confined like a rank: the launch file is open on this descriptor.
inline constexpr char kConfineArgument[] = "--confine";
inline constexpr int kConfinedFd = 3;
// … or a command that also joins a rank: in its cgroups and its PID namespace, killed when its parent dies. The
// pid of the process that becomes it is written to this descriptor.
inline constexpr char kJoinArgument[] = "--join";
inline constexpr int kJoinedPidFd = 4;
// muster-shim as a hook of the runtime: DIRECTORY COUNT (shim/barrier.h).
inline constexpr char kBarrierArgument[] = "--meet";

enum class Stream : uint32_t { kStdout = 0, kStderr = 1 };
inline constexpr int kStreams = 2;

// ---------------------------------------------------------------- launch file

struct RankLaunch {
  uint32_t rank = 0;
  uint32_t local_rank = 0;
  std::string program;  // absolute path passed to execve
  std::vector<std::string> argv;
  std::vector<std::string> env;  // "NAME=value", complete
  std::string workdir;
  // Cgroups that limit this rank, made by the worker: it enters all of them before exec, or does
  // not start. The first has the memory events, if its memory is limited.
  std::vector<std::string> limit_dirs = {};
  bool limits_memory = false;
};

// Whose rights the ranks have.
struct LaunchAccount {
  bool is_other = false;  // false: the shim's own, unchanged
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<uint32_t> groups = {};  // supplementary, gid included
};

// What the ranks of an attempt can reach, in addition to what their account forbids.
struct LaunchSandbox {
  bool drops_capabilities = false;
  bool filters_calls = false;               // shim/call_filter.h
  bool has_own_domain = false;              // shim/process_domain.h
  bool has_own_mounts = false;              // … as the rest describes
  std::string temporary_dir = {};           // becomes /tmp and /var/tmp
  std::vector<std::string> kept_dirs = {};  // below /tmp, yet the job's: if its account gets there
  std::vector<std::string> hidden_dirs = {};  // covered by an empty directory
  std::vector<std::string> shown_dirs = {};   // below a hidden one: the attempt's own
  // Its own System V objects and message queues; only together with has_own_mounts.
  bool has_own_ipc = false;
  bool has_own_processes = false;  // shim/process_space.h
};

inline constexpr char kNeededToRead = 'r';
inline constexpr char kNeededToWrite = 'w';

// What the ranks of an attempt run in instead of the node's own file system. The runtime then sets
// up their account and sandbox, as each rank's bundle specifies.
struct LaunchContainer {
  std::string runtime = {};     // path of runc; empty: no container
  std::string image_root = {};  // the image's root file system, shared and never written to
  // "<attempt dir>/containers", and in it (shim/container_mounts.h):
  //   RANK/config.json, RANK/pid   the bundle of a rank, and its first process
  //   upper/, work/                what ranks changed of the image's files
  //   root/, image/, shm/, mounts/ where the attempt's mount namespace has them
  //   run/                         the runtime's own state
  //   processes                    the attempt's PID namespace, if it has one
  //   needed, view/                what of the node the runtime sees (shim/runtime_view.h)
  std::string directory = {};
  uint64_t shm_bytes = 0;                 // of /dev/shm; 0: as the kernel chooses
  std::vector<std::string> sources = {};  // opened with the account's rights
  // For each source, kNeededToRead or kNeededToWrite and its place below mounts/: "r0", or inside
  // another source, "w0/in/there", which the job may be able to change at any moment.
  std::vector<std::string> places = {};
};

struct ShimLaunch {
  uint64_t job = 0;
  uint32_t attempt = 0;
  std::string mark;  // value of kMarkVariable in the env of the shim and of every rank
  std::string attempt_dir;
  std::string spool_dir;    // must exist; files rank-R.stdout, rank-R.stdout.idx, …
  std::string socket_path;  // where a restarted worker connects
  std::vector<RankLaunch> ranks;
  uint32_t held_ports = 0;  // how many descriptors follow kFirstHeldPortFd
  std::string cgroup_dir;   // this attempt's own v2 cgroup, made by the worker; empty: none
  std::string freezer_dir;  // this attempt's own v1 freezer cgroup; empty: none
  std::vector<std::string> limit_dirs =
      {};                          // this attempt's own v1 cgroups that hold those of limited ranks
  uint64_t spool_quota_bytes = 0;  // 0: no quota
  // When the spool is full, backpressure through the pipes stops the ranks as long as the spool is
  // being read (kTrim). If nothing was taken for this long, or since the start, output is dropped
  // and counted …
  uint32_t spool_patience_ms = 10'000;
  bool block_when_full = false;  // … or backpressure continues for as long as it takes
  // Off where ranks run as the worker's user anyway: sudo, ping and MPI helpers need it.
  bool no_new_privs = false;
  uint32_t term_grace_ms = 30000;  // grace when the shim itself gets SIGTERM
  // As in kFence, but effective from the start, even if the worker dies before it sends its first
  // packet.
  int64_t fence_mono_ms = 0;
  LaunchAccount account = {};
  LaunchSandbox sandbox = {};
  LaunchContainer container = {};
  // The directory with the ranks' secrets; empty: they have none. The worker removes it after it has read the
  // exit record; the shim removes it if no worker is connected when the attempt ends.
  std::string secrets_dir = {};
  // The program of the store that the ranks meet at, which runs beside them as their account; empty: they have none.
  // Its settings (rendezvous/settings.h), to which the shim adds what it knows itself; descriptors in it are those of
  // held ports.
  std::string rendezvous_program = {};
  std::string rendezvous_settings = {};
};

// Below the directory: a list of the node's files that the runtime needs besides its own. Each entry is
// kNeededToRead or kNeededToWrite and a path, and ends with a zero byte.
inline constexpr char kNeededName[] = "needed";
// Where the runtime finds the PID namespace to join (shim/process_space.h).
inline constexpr char kProcessSpaceName[] = "processes";

// "<directory>/<rank>".
std::string BundlePath(const LaunchContainer& container, uint32_t rank);
// The runtime's command line. It exits once the container runs, whose first process is then the child
// of the nearest subreaper.
std::vector<std::string> RuntimeWords(const LaunchContainer& container, uint32_t rank,
                                      std::string_view mark);

std::string EncodeShimLaunch(const ShimLaunch& launch);
// False if it is truncated, damaged, of another version, or over a limit.
bool DecodeShimLaunch(std::string_view bytes, ShimLaunch* launch);

// "<spool_dir>/rank-R.stdout"; the index is the same + ".idx".
std::string SpoolPath(const std::string& spool_dir, uint32_t rank, Stream stream);

// ---------------------------------------------------------------- spool index

// One read from a pipe. The spool file holds the stream's bytes at their stream offsets. A record
// is appended after its bytes are written; a record of zeros (a hole) was trimmed. Native byte
// order: read on the same host only.
struct SpoolRecord {
  uint64_t offset;   // of the first byte of this record, in the stream and in the file
  uint64_t length;   // 0: only marks dropped bytes
  int64_t time_us;   // Unix microseconds when they were received
  uint64_t dropped;  // bytes lost just before `offset` (a hole in the file)
};
static_assert(sizeof(SpoolRecord) == 32);

// ---------------------------------------------------------------- packets

enum class PacketKind : uint32_t {
  // shim → worker. A new connection gets the full history: kHello, then everything that has
  // happened.
  kHello = 1,        // pid, start_time: the shim's; text: the mark
  kRankStarted = 2,  // rank, pid, start_time
  kRankExited =
      3,  // rank, exit_code, signal, flags, exec_errno, exec_stage, since_start_us, wall_ms
  kStreamClosed = 4,  // rank, stream, offset: its end, dropped: bytes lost in total. Index and file
                      // are complete
  kSpoolGrew = 5,     // sent once until kSpoolSeen answers
  kEnded = 6,  // the exit record is written; text: how ("empty", or survivors); the shim now exits
  kPong = 7,   // answers kPing
  // worker → shim
  kStop = 32,    // grace_ms. a later stop can only shorten the deadline
  kSignal = 33,  // signal, to every running rank: see SignalReachesGroup
  kTrim = 34,    // rank, stream, offset: bytes below it are durable elsewhere; index_records: so
                 // are that many records
  kSpoolSeen = 35,
  kFence = 36,  // offset: CLOCK_BOOTTIME milliseconds at which the shim stops its ranks on its own;
                // 0: never
  kPing = 37,   // liveness check, for a shim of kShimAnswersSince or newer
};

enum ExitFlags : uint32_t {
  kFlagOutOfMemory = 1,  // according to the kernel's counters
  kFlagStopped = 2,      // it ended after a stop was asked for
  kFlagMemoryLimit = 4,  // out of memory because of the rank's own limit
};

enum class ExecStage : int32_t {
  kNone = 0,
  kSetup = 1,
  kWorkdir = 2,
  kExec = 3,
  kFork = 4,
  kLimits = 5,
  kAccount = 6,
  kSandbox = 7,
  kContainer = 8  // the runtime could not start it; the rank's stderr has the runtime's reason
};

// One SOCK_SEQPACKET datagram. Only the fields listed at its kind are used; the others are 0.
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
  int32_t pid = 0;        // 0: never forked
  int32_t exit_code = 0;  // 127/126 when exec failed
  int32_t signal = 0;
  int32_t exec_errno = 0;
  ExecStage exec_stage = ExecStage::kNone;
  bool out_of_memory = false;
  bool memory_limit = false;  // … because the rank reached its own limit
  bool stopped = false;
  int64_t since_start_us = 0;
  int64_t wall_ms = 0;
};

struct StreamEndRecord {
  uint32_t rank = 0;
  Stream stream = Stream::kStdout;
  uint64_t end = 0;  // stream offset after the last byte
  uint64_t dropped = 0;
};

// Text, one fact per line, last line "end": readable by a person, and a truncated one is
// recognizable.
struct ExitRecord {
  uint64_t job = 0;
  uint32_t attempt = 0;
  std::string mark;
  std::vector<RankExitRecord> exits;
  std::vector<StreamEndRecord> streams;
  std::string how;      // "empty": proven that nothing is alive
  std::string failure;  // why no rank could be started, or why they were killed; empty otherwise
};

// Job control and terminating signals go to a rank's process group, others (USR1, …) to the rank's
// process only, as with `docker kill`: data-loader processes with default actions must survive
// them.
bool SignalReachesGroup(int signal);

std::string EncodeExitRecord(const ExitRecord& record);
bool DecodeExitRecord(std::string_view text, ExitRecord* record);

}  // namespace muster::common
