// The loop, and how ranks end. How they start is in start.cc and runtimes.cc, messages to the worker are in
// worker_reports.cc.
#include "shim/supervisor.h"

#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "common/files/cgroup_files.h"
#include "common/files/plain_files.h"
#include "common/kernel/kill_ladder.h"
#include "common/kernel/process.h"
#include "shim/secrets.h"

namespace muster::shim {
namespace {

using common::AttemptCgroups;
using common::MonotonicMicros;
using common::PacketKind;
using common::ShimPacket;

constexpr int64_t kGatherUs = 2'000;  // a slowly written stream is read about this often at most
constexpr int64_t kBlockedRetryUs = 50'000;  // a blocked stream checks for room this often
constexpr int64_t kKillEveryUs = 2'000;
// Timeouts, on the lived clock: the process that we wait for may have been frozen together with us.
constexpr int64_t kUnkillableAfterUs =
    10'000'000;  // then the survivors are listed and the node needs a person
constexpr int64_t kForeignWriterUs =
    2'000'000;  // how long a pipe held by a foreign process delays the end
constexpr int64_t kFullDiskUs =
    60'000'000;  // how long a full disk may delay the end, with logs: block
constexpr int64_t kTurnAtMostUs = 100'000;  // in a longer turn, we were frozen for the rest of it
constexpr int kDrainTurnsAtExit = 8;
constexpr int64_t kForever = INT64_MAX;

int64_t InMs(uint32_t milliseconds) { return MonotonicMicros() + milliseconds * int64_t{1000}; }

}  // namespace

int Supervisor::Run() {
  failure_ = Prepare();
  if (!failure_.empty()) Finish();
  while (phase_ != Phase::kDone) Turn();
  return failure_.empty() ? 0 : 1;
}

void Supervisor::Turn() {
  int64_t wake_us = kForever;
  std::vector<pollfd> polled = PollSet(MonotonicMicros(), &wake_us);
  deadline_timer_.Set(NextDeadlineUs());
  const size_t first_stream = polled.size();
  const std::vector<StreamOfRank> streams = AppendStreams(MonotonicMicros(), &polled, &wake_us);
  timespec timeout{};
  if (wake_us != kForever) {
    const int64_t wait = std::max<int64_t>(0, wake_us - MonotonicMicros());
    timeout = {wait / 1'000'000, wait % 1'000'000 * 1000};
  }
  ppoll(polled.data(), polled.size(), wake_us == kForever ? nullptr : &timeout, nullptr);
  CountTurn();
  for (const pollfd& entry : polled) {
    if (entry.revents == 0) continue;
    if (entry.fd == signal_fd_) ReadSignals();
    if (entry.fd == connection_.listener() && connection_.Accept()) ReplayFacts();
  }
  for (Rank& rank : ranks_) {
    if (rank.exec_pipe >= 0) ReadExecPipe(rank);
  }
  if (connection_.wants_to_write()) connection_.Flush();
  for (const ShimPacket& packet : connection_.Receive()) Obey(packet);
  KeepDeadlines();  // before anything that may wait for a disk
  quota_.being_taken = lived_us_ - spool_taken_us_ < launch_.spool_patience_ms * int64_t{1000};
  for (size_t i = 0; i < streams.size(); ++i) {
    const auto [rank, stream] = streams[i];
    if (polled[first_stream + i].revents == 0 || rank->streams[stream].closed()) continue;
    NoteDrained(*rank, stream, rank->streams[stream].Drain(), MonotonicMicros());
  }
  if (std::exchange(reap_wanted_, false)) Reap();
  Advance();
  TellGrew();
}

std::vector<pollfd> Supervisor::PollSet(int64_t now_us, int64_t* wake_us) {
  std::vector<pollfd> polled;
  polled.push_back({signal_fd_, POLLIN, 0});
  if (connection_.listener() >= 0) polled.push_back({connection_.listener(), POLLIN, 0});
  if (connection_.fd() >= 0) {
    const short events = connection_.wants_to_write() ? POLLIN | POLLOUT : POLLIN;
    polled.push_back({connection_.fd(), events, 0});
  }
  for (const Rank& rank : ranks_) {
    if (rank.exec_pipe >= 0) polled.push_back({rank.exec_pipe, POLLIN, 0});
  }
  if (deadline_timer_.fd() >= 0) polled.push_back({deadline_timer_.fd(), POLLIN, 0});
  *wake_us = std::min(*wake_us, NextDeadlineUs());
  if (phase_ == Phase::kEmptying) *wake_us = std::min(*wake_us, next_kill_us_);
  if (phase_ == Phase::kDraining) *wake_us = std::min(*wake_us, now_us + kTurnAtMostUs);
  return polled;
}

void Supervisor::CountTurn() {
  const int64_t now_us = MonotonicMicros();
  lived_us_ += std::min(now_us - turn_us_, kTurnAtMostUs);
  turn_us_ = now_us;
}

// The lease was not renewed: the coordinator starts the ranks elsewhere a moment after this, whether
// or not we were able to act in time.
int64_t Supervisor::FenceEndUs() const {
  return fence_us_ > 0 ? fence_us_ + launch_.term_grace_ms * int64_t{1000} : kForever;
}

// When the ranks are killed, regardless of the grace they were promised.
int64_t Supervisor::StopDeadlineUs() const {
  return std::min(stop_asked_ ? stop_deadline_us_ : kForever, FenceEndUs());
}

int64_t Supervisor::NextDeadlineUs() const {
  if (phase_ != Phase::kRunning) return kForever;
  return fence_us_ > 0 && !stop_asked_ ? fence_us_ : StopDeadlineUs();
}

// Both ends of the fence are points in time: a supervisor that was frozen past the second one has no
// grace left to give.
void Supervisor::KeepDeadlines() {
  if (phase_ != Phase::kRunning) return;
  const int64_t now_us = MonotonicMicros();
  if (fence_us_ > 0 && !stop_asked_ && now_us >= fence_us_) BeginStop(FenceEndUs());
  if (!AllExited() && now_us < StopDeadlineUs()) return;
  phase_ = Phase::kEmptying;
  emptying_since_us_ = lived_us_;
  EmptyOnce(now_us);
}

// The pipes that are due, in the order in which to read them.
std::vector<Supervisor::StreamOfRank> Supervisor::AppendStreams(int64_t now_us,
                                                                std::vector<pollfd>* polled,
                                                                int64_t* wake_us) {
  std::vector<StreamOfRank> streams;
  for (Rank& rank : ranks_) {
    for (int i = 0; i < common::kStreams; ++i) {
      const SpoolStream& stream = rank.streams[i];
      if (stream.closed()) continue;
      if (stream.rest_until_us > now_us) {
        *wake_us = std::min(*wake_us, stream.rest_until_us);
        continue;
      }
      polled->push_back({stream.pipe(), POLLIN, 0});
      streams.push_back({&rank, i});
    }
  }
  return streams;
}

void Supervisor::NoteDrained(Rank& rank, int stream, Drained drained, int64_t now_us) {
  SpoolStream& spool = rank.streams[stream];
  switch (drained) {
    case Drained::kNothing:
    case Drained::kMuch:
      spool.rest_until_us = 0;
      break;
    case Drained::kSome:
      // Unbuffered writers would wake us for every line: let the next lines accumulate in the pipe.
      // On a grid, so that many ranks wake us together.
      spool.rest_until_us = (now_us / kGatherUs + 1) * kGatherUs + kGatherUs / 2;
      break;
    case Drained::kBlocked:
      spool.rest_until_us = now_us + kBlockedRetryUs;
      break;
    case Drained::kClosed:
      TellClosed(rank, stream);
      break;
  }
  if (drained == Drained::kSome || drained == Drained::kMuch) grew_ = true;
}

// Drains what the rank had written before its end is reported, so that the spool has a failed
// rank's last lines. A grandchild that keeps writing must not keep us here.
void Supervisor::DrainRank(Rank& rank) {
  for (int i = 0; i < common::kStreams; ++i) {
    for (int turn = 0; turn < kDrainTurnsAtExit && !rank.streams[i].closed(); ++turn) {
      const Drained drained = rank.streams[i].Drain();
      NoteDrained(rank, i, drained, MonotonicMicros());
      if (drained == Drained::kNothing || drained == Drained::kBlocked) break;
    }
  }
}

void Supervisor::ReadSignals() {
  signalfd_siginfo info;
  while (read(signal_fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGCHLD) reap_wanted_ = true;
    if (info.ssi_signo == SIGTERM) BeginStop(InMs(launch_.term_grace_ms));
  }
}

// Ranks and orphans that were reparented to us: nothing stays a zombie.
void Supervisor::Reap() {
  siginfo_t info{};
  // A container's first process becomes our child when its runtime exits, so the runtime's exit has to be
  // handled first.
  while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
    ReapStore();
    SettleRuntimes();
    const pid_t pid = std::exchange(info.si_pid, 0);
    if (IsOfARuntime(pid)) return;  // the runtime's exit calls this again
    if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG) != 0) continue;
    for (Rank& rank : ranks_) {
      if (rank.pid == info.si_pid && !rank.exited) NoteExit(rank, info.si_code, info.si_status);
    }
    info.si_pid = 0;
    next_kill_us_ = 0;  // while emptying, check at once whether that was the last one
  }
}

// Its clients do not reconnect, so the ranks cannot continue. Before any rank is reaped: one that has exited
// because of it must not be the cause.
void Supervisor::ReapStore() {
  siginfo_t info{};
  if (store_.pid <= 0 ||
      waitid(P_PID, static_cast<id_t>(store_.pid), &info, WEXITED | WNOHANG) != 0 ||
      info.si_pid == 0) {
    return;
  }
  store_.pid = -1;
  const int status_code = info.si_code, status = info.si_status;
  if (phase_ != Phase::kRunning || AllExited()) return;
  failure_ = std::string("the store of the ranks (muster-rendezvous) ") +
             (status_code == CLD_EXITED ? "exited with code " : "was killed by signal ") +
             std::to_string(status) + "; the ranks were killed with it";
  BeginStop(MonotonicMicros());
}

void Supervisor::NoteExit(Rank& rank, int status_code, int status) {
  if (rank.exec_pipe >= 0) ReadExecPipe(rank);
  rank.exited = true;
  rank.exit.wall_ms = common::WallMicros() / 1000;
  rank.exit.since_start_us = MonotonicMicros() - first_start_us_;
  rank.exit.stopped = stop_asked_;
  rank.exit.exec_errno = rank.exec_failure.error;
  rank.exit.exec_stage = rank.exec_failure.stage;
  if (status_code == CLD_EXITED) {
    rank.exit.exit_code = status;
  } else {
    rank.exit.signal = status;
  }
  JudgeMemory(rank);
  if (store_.exits >= 0) {
    const auto index = static_cast<uint32_t>(&rank - ranks_.data());
    // A store that is gone, or does not read, is not waited for.
    static_cast<void>(!write(store_.exits, &index, sizeof index));
  }
  DrainRank(rank);
  TellExited(rank);
}

// Determines whether the rank ended for lack of memory.
void Supervisor::JudgeMemory(Rank& rank) {
  common::RankExitRecord& exit = rank.exit;
  const bool killed = exit.signal == SIGKILL;
  if (kill_sent_ || (stop_asked_ && !killed) || (exit.signal == 0 && exit.exit_code == 0)) return;
  if (!rank.memory_dir.empty()) {
    const common::MemoryEvents events = common::ReadMemoryEvents(rank.memory_dir);
    // The rank's own limit explains any failure after it, even if the kernel killed only one of its
    // processes.
    exit.memory_limit = events.kills > 0 && events.hit_limit;
    exit.out_of_memory = exit.memory_limit || (events.kills > 0 && killed);
    if (events.kills >= 0) return;
  }
  if (killed && out_of_memory_seen_ >= 0 &&
      common::OutOfMemoryKills(launch_.cgroup_dir) > out_of_memory_seen_) {
    exit.out_of_memory = true;
    ++out_of_memory_seen_;
  }
}

void Supervisor::ReadExecPipe(Rank& rank) {
  const ssize_t count = read(rank.exec_pipe, &rank.exec_failure, sizeof rank.exec_failure);
  if (count < 0) return;  // neither exec nor failure yet
  close(std::exchange(rank.exec_pipe, -1));
  if (count == 0 && !rank.exited && !rank.in_runtime) {
    rank.started = true;
    TellStarted(rank);
  }
}

void Supervisor::Obey(const ShimPacket& packet) {
  switch (packet.kind) {
    case PacketKind::kStop:
      BeginStop(InMs(packet.grace_ms));
      break;
    case PacketKind::kSignal:
      SignalRanks(packet.signal);
      break;
    case PacketKind::kTrim: {
      Rank* rank = FindRank(packet.rank);
      if (rank == nullptr || packet.stream >= common::kStreams) break;
      if (rank->streams[packet.stream].Trim(packet.offset, packet.index_records)) {
        spool_taken_us_ = lived_us_;
        quota_.being_taken = true;
      }
      for (Rank& other : ranks_) {
        for (SpoolStream& stream : other.streams) {
          if (stream.FlushDropMark()) grew_ = true;
          if (stream.blocked()) stream.rest_until_us = 0;
        }
      }
      break;
    }
    case PacketKind::kSpoolSeen:
      grew_told_ = false;
      break;
    case PacketKind::kFence:
      fence_us_ = static_cast<int64_t>(packet.offset) * 1000;
      break;
    case PacketKind::kPing:
      connection_.Send(Packet(PacketKind::kPong));
      break;
    default:
      break;  // from a newer worker
  }
}

// At `deadline_us` the ranks are killed; if that has passed, they are not even asked to stop.
void Supervisor::BeginStop(int64_t deadline_us) {
  if (stop_asked_) {
    stop_deadline_us_ = std::min(stop_deadline_us_, deadline_us);
  } else {
    stop_asked_ = true;
    stop_deadline_us_ = deadline_us;
    if (MonotonicMicros() >= StopDeadlineUs()) return;
    SignalRanks(SIGTERM);
    SignalRanks(SIGCONT);  // a stopped rank cannot handle SIGTERM
  }
  SaveState();
}

void Supervisor::SignalRanks(int signal) {
  for (const Rank& rank : ranks_) {
    if (rank.exited || rank.pid <= 0) continue;
    // Before its setsid, the rank has no process group.
    if (!common::SignalReachesGroup(signal) || kill(-rank.pid, signal) != 0) kill(rank.pid, signal);
  }
}

void Supervisor::Advance() {
  KeepDeadlines();
  const int64_t now_us = MonotonicMicros();
  if (phase_ == Phase::kEmptying && now_us >= next_kill_us_) EmptyOnce(now_us);
  if (phase_ == Phase::kDraining) FinishDraining();
}

// Pipes now close on their own, except one whose write end a foreign process still holds, and one
// that a full disk blocks (logs: block).
void Supervisor::FinishDraining() {
  bool open = false, blocked = false;
  for (const Rank& rank : ranks_) {
    for (const SpoolStream& stream : rank.streams) {
      open = open || !stream.closed();
      blocked = blocked || (!stream.closed() && stream.blocked());
    }
  }
  if (open && lived_us_ - draining_since_us_ < (blocked ? kFullDiskUs : kForeignWriterUs)) return;
  quota_.giving_up = true;
  for (Rank& rank : ranks_) DrainRank(rank);
  Finish();
}

// One round of SIGKILL to everything that descends from us. We are a subreaper: having no child
// proves that none is alive.
void Supervisor::EmptyOnce(int64_t now_us) {
  kill_sent_ = kill_sent_ || !AllExited();
  EndProcessSpace(&space_);  // at once, without a search
  // The store ends by this: it is outside of our domain, where no signal of ours reaches it.
  if (store_.exits >= 0) close(std::exchange(store_.exits, -1));
  const AttemptCgroups cgroups{launch_.cgroup_dir, launch_.freezer_dir, launch_.limit_dirs};
  siginfo_t info{};
  bool childless = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
  const bool cgroups_empty = common::KillCgroups(cgroups);
  if (!childless) {
    for (const Rank& rank : ranks_) {
      if (!rank.exited && rank.pid > 0) kill(-rank.pid, SIGKILL);
    }
    for (const pid_t child : common::ListChildren()) kill(child, SIGKILL);
    Reap();
    childless = (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD) ||
                OnlyFirstIsLeft(space_, common::ListChildren());
  }
  if (childless && cgroups_empty) {
    phase_ = Phase::kDraining;
  } else if (lived_us_ - emptying_since_us_ >= kUnkillableAfterUs) {
    how_ = "processes survived SIGKILL:";
    for (const pid_t child : common::ListChildren()) how_ += " " + std::to_string(child);
    phase_ = Phase::kDraining;
  }
  next_kill_us_ = now_us + kKillEveryUs;
  if (phase_ != Phase::kDraining) return;
  draining_since_us_ = lived_us_;
  quota_.closing = true;
  for (Rank& rank : ranks_) DrainRank(rank);
}

void Supervisor::Finish() {
  for (Rank& rank : ranks_) {
    for (int i = 0; i < common::kStreams; ++i) {
      rank.streams[i].Close();
      TellClosed(rank, i);
    }
  }
  common::ExitRecord record;
  record.job = launch_.job;
  record.attempt = launch_.attempt;
  record.mark = launch_.mark;
  record.how = how_;
  record.failure = failure_;
  for (const Rank& rank : ranks_) {
    if (rank.exited) record.exits.push_back(rank.exit);
    for (int i = 0; i < common::kStreams; ++i) {
      record.streams.push_back({rank.exit.rank, static_cast<common::Stream>(i),
                                rank.streams[i].offset(), rank.streams[i].dropped()});
    }
  }
  const std::string path = launch_.attempt_dir + "/" + common::kExitRecordName;
  if (!common::ReplaceFile(path, common::EncodeExitRecord(record), true)) {
    dprintf(STDERR_FILENO, "cannot write %s: errno %d\n", path.c_str(), errno);
  }
  common::RemoveAttemptCgroups({launch_.cgroup_dir, launch_.freezer_dir, launch_.limit_dirs});
  TellGrew();
  ShimPacket packet = Packet(PacketKind::kEnded);
  (failure_.empty() ? how_ : failure_).copy(packet.text, sizeof packet.text - 1);
  connection_.Send(packet);
  connection_.Unlink();
  if (!launch_.secrets_dir.empty() && connection_.fd() < 0) RemoveSecrets(launch_.secrets_dir);
  phase_ = Phase::kDone;
}

Supervisor::Rank* Supervisor::FindRank(uint32_t rank) {
  for (Rank& candidate : ranks_) {
    if (candidate.exit.rank == rank) return &candidate;
  }
  return nullptr;
}

bool Supervisor::AllExited() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.exited; });
}

}  // namespace muster::shim
