// One attempt on one node, from the first fork to the exit record: a poll loop on one thread. It
// outlives the worker and does not depend on it: output goes to the spool, exits are remembered,
// and a returning worker gets the full history. It makes no decisions beyond those it was launched
// with: no retry, no restart.
//
// Phases only move forward:
//   kRunning    ranks run, or are being stopped and have grace left
//   kEmptying   every rank exited, or the grace expired: kill until no descendant is alive
//   kDraining   nothing is alive: read the pipes to EOF
//   kDone       the exit record is written and sent
#pragma once

#include <poll.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/kernel/shim_protocol.h"
#include "common/kernel/wake_timer.h"
#include "shim/connection.h"
#include "shim/process_space.h"
#include "shim/rank_mounts.h"
#include "shim/rank_process.h"
#include "shim/rendezvous_process.h"
#include "shim/spool.h"

namespace muster::shim {

class Supervisor {
 public:
  explicit Supervisor(common::ShimLaunch launch, int worker_fd);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  // Runs until the attempt is over. Returns the process's exit status.
  int Run();

 private:
  enum class Phase { kRunning, kEmptying, kDraining, kDone };
  struct Rank {
    pid_t pid = -1;
    uint64_t start_time = 0;
    int exec_pipe = -1;
    ExecFailure exec_failure;
    std::string memory_dir;   // the cgroup that limits its memory; empty: none
    bool started = false;     // exec succeeded
    bool in_runtime = false;  // the process is the container's runtime, which has yet to start it
    bool exited = false;
    common::RankExitRecord exit;
    SpoolStream streams[common::kStreams];
    bool told_closed[common::kStreams] = {};
  };

  struct StreamOfRank {
    Rank* rank;
    int stream;
  };

  // Start. Empty, or the sentence that says why nothing was started.
  std::string Prepare();
  std::string OpenSpools(std::vector<int>* write_ends);
  std::string MakeSpace();
  std::string MakeMounts(RankMounts* mounts);
  void StartRanks(const std::vector<int>& write_ends, const RankMounts& mounts);
  void SaveState();
  std::string StartStore();

  // One iteration of the loop.
  void Turn();
  std::vector<pollfd> PollSet(int64_t now_us, int64_t* wake_us);
  std::vector<StreamOfRank> AppendStreams(int64_t now_us, std::vector<pollfd>* polled,
                                          int64_t* wake_us);
  void DrainRank(Rank& rank);
  void NoteDrained(Rank& rank, int stream, Drained drained, int64_t now_us);
  void ReadSignals();
  void Reap();
  void SettleRuntimes();
  bool IsOfARuntime(pid_t pid) const;
  void RuntimeExited(Rank& rank, int status_code, int status);
  void NoteExit(Rank& rank, int status_code, int status);
  void ReapStore();
  void JudgeMemory(Rank& rank);
  void ReadExecPipe(Rank& rank);
  void Obey(const common::ShimPacket& packet);
  void BeginStop(int64_t deadline_us);
  void SignalRanks(int signal);
  void CountTurn();
  int64_t FenceEndUs() const;
  int64_t StopDeadlineUs() const;
  int64_t NextDeadlineUs() const;
  void KeepDeadlines();
  void NeverStart(Rank& rank);
  void Advance();
  void EmptyOnce(int64_t now_us);
  void FinishDraining();
  void Finish();

  // Messages to the worker.
  void ReplayFacts();
  void TellStarted(const Rank& rank);
  void TellExited(const Rank& rank);
  void TellClosed(Rank& rank, int stream);
  void TellGrew();
  common::ShimPacket Packet(common::PacketKind kind, const Rank* rank = nullptr) const;

  Rank* FindRank(uint32_t rank);
  bool AllExited() const;

  common::ShimLaunch launch_;
  Connection connection_;
  ProcessSpace space_;
  RendezvousProcess store_;
  SpoolQuota quota_;
  std::vector<Rank> ranks_;
  Phase phase_ = Phase::kRunning;
  int signal_fd_ = -1;
  bool reap_wanted_ = false;
  // Time in which this process could act, counted turn by turn, without the time in which the node
  // was frozen. Used for patience; deadlines are points in time.
  int64_t lived_us_ = 0;
  int64_t turn_us_ = 0;         // when the last turn was counted
  int64_t spool_taken_us_ = 0;  // when the last acknowledgement came; lived, as are all `since`
  bool grew_ = false;           // since the last kSpoolGrew
  bool grew_told_ = false;      // kSpoolGrew was sent, kSpoolSeen has not arrived
  bool stop_asked_ = false;
  bool kill_sent_ = false;
  int64_t stop_deadline_us_ = 0;
  int64_t fence_us_ = 0;  // when to stop without being asked, with or without a worker; 0: never
  common::WakeTimer deadline_timer_;
  int64_t emptying_since_us_ = 0;
  int64_t next_kill_us_ = 0;
  int64_t draining_since_us_ = 0;
  int64_t first_start_us_ = 0;
  int64_t out_of_memory_seen_ = -1;
  std::string how_ = "empty";
  std::string failure_;
};

}  // namespace muster::shim
