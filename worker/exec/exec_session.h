// The commands that people run in this node's ranks. Each has a thread that moves its bytes, bounded in both
// directions; none of them pass through the control loop. A command is killed with all of its session when its
// stream ends, when its attempt ends and when the worker stops.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "muster/v1/exec.pb.h"
#include "worker/base/job_threads.h"
#include "worker/core/state.h"
#include "worker/exec/exec_command.h"

namespace muster::worker {

// The coordinator's end of one session. Any thread.
class ExecStream {
 public:
  struct Callbacks {
    std::function<void(v1::ExecInput)> message;  // then call Next
    std::function<void()> written;
    std::function<void()> done;  // the last one
  };
  virtual ~ExecStream() = default;
  virtual void Write(v1::ExecOutput message) = 0;
  virtual size_t Waiting() = 0;  // messages that have not been sent
  virtual void Next() = 0;
  virtual void Cancel() = 0;
};

// One command. Run has its own thread; any thread calls the others.
class ExecSession {
 public:
  // The most standard input that waits for the command.
  static constexpr size_t kInputBytesMax = 256 * 1024;
  static constexpr size_t kOutputBytesMax = 32 * 1024;  // of one message
  static constexpr size_t kMessagesWaitingMax = 4;
  static constexpr int kGraceMs = 2'000;    // between SIGTERM and SIGKILL
  static constexpr int kStopGraceMs = 500;  // … when the worker stops
  // The most time between killing an attempt's processes and reporting its end.
  static constexpr int kAttemptsEndMs = 2'000;

  ExecSession(const ExecSetup& setup, v1::ExecOrder order);
  using Connect = std::function<std::shared_ptr<ExecStream>(ExecStream::Callbacks)>;
  // Call it once; `self` is this session, for the stream's callbacks.
  static void Open(const std::shared_ptr<ExecSession>& self, const Connect& connect);
  void Run();
  AttemptKey key() const { return {order_.job(), order_.attempt()}; }
  // Kills the command at once, as its attempt is over.
  void EndWithAttempt();
  // The worker stops.
  void Stop();
  bool IsOver();

 private:
  enum class Why { kRuns, kGone, kStopping, kAttemptEnded };

  void Wake();
  void OnMessage(v1::ExecInput message);
  void OnDone();
  Why why();
  std::shared_ptr<ExecStream> stream();
  bool WentWithAttempt(const v1::ExecEnded& ended);
  // Moves bytes until the command has exited, or must be killed.
  void Pump(ExecProcess& process);
  void PollOnce(ExecProcess& process, int pidfd, bool* exited);
  void TakeInput(ExecProcess& process);
  void Apply(ExecProcess& process, v1::ExecInput message);
  void Feed(ExecProcess& process);
  // False: nothing more to read now, or ever.
  bool ReadFrom(common::UniqueFd& fd, bool is_err);
  void Kill(pid_t pid, int pidfd);
  void Drain(ExecProcess& process);
  bool WaitForRoom();
  void WaitForWake(int timeout_ms);
  void WriteEnded(v1::ExecEnded ended);
  void WaitUntilGone();

  const ExecSetup setup_;
  const v1::ExecOrder order_;
  const common::UniqueFd wake_;

  // Used only by Run.
  std::string input_;  // for the command
  bool input_ended_ = false;
  bool owes_next_ = false;

  std::mutex mutex_;  // guards what follows
  std::shared_ptr<ExecStream> stream_;
  std::deque<v1::ExecInput> inbox_;  // at most one: the next is requested once it is taken
  pid_t leader_ = -1;                // not reaped yet
  Why why_ = Why::kRuns;
  bool is_done_ = false;  // the stream
  bool is_over_ = false;
};

// The sessions of this node. Control loop's thread.
class ExecSessions {
 public:
  // Twice as many as the coordinator orders, because a session that is ending here may already be
  // replaced there.
  static constexpr size_t kAtOnce = 16;

  explicit ExecSessions(ExecSetup setup) : setup_(std::move(setup)) {}
  ~ExecSessions() { Shutdown(std::chrono::milliseconds(0)); }

  // Call once at the start: kills the commands that a killed worker left behind.
  void KillOlder() { KillOlderExecs(setup_); }
  void Start(v1::ExecOrder order, const ExecSession::Connect& connect);
  // The attempt is over, or about to be reported so.
  void EndAttempt(const AttemptKey& key);
  // Kills all running commands. False: a thread still hangs on some file system.
  bool Shutdown(std::chrono::milliseconds wait);

 private:
  const ExecSetup setup_;
  uint64_t last_lane_ = 0;
  std::list<std::shared_ptr<ExecSession>> sessions_;
  JobThreads threads_{kAtOnce};
};

}  // namespace muster::worker
