#include "worker/exec/exec_session.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/base/clock.h"
#include "common/log.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::worker {
namespace {

constexpr int kForever = -1;
constexpr int kExitCannotStart = 126;
constexpr char kAttemptEnded[] = "the attempt of its rank has ended";
constexpr char kEndOfInput = 4;  // Ctrl-D, unless the program has chosen another

// Waits for it to exit, without reaping it.
bool HasExited(pid_t pid) {
  siginfo_t ended{};
  return waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT | WNOHANG) != 0 ||
         ended.si_pid != 0;
}

}  // namespace

ExecSession::ExecSession(const ExecSetup& setup, v1::ExecOrder order)
    : setup_(setup), order_(std::move(order)), wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

void ExecSession::Open(const std::shared_ptr<ExecSession>& self, const Connect& connect) {
  std::shared_ptr<ExecStream> stream =
      connect({.message = [self](v1::ExecInput message) { self->OnMessage(std::move(message)); },
               .written = [self] { self->Wake(); },
               .done = [self] { self->OnDone(); }});
  std::lock_guard lock(self->mutex_);
  self->stream_ = std::move(stream);
}

void ExecSession::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);
}

void ExecSession::OnMessage(v1::ExecInput message) {
  {
    std::lock_guard lock(mutex_);
    inbox_.push_back(std::move(message));
  }
  Wake();
}

void ExecSession::OnDone() {
  {
    std::lock_guard lock(mutex_);
    is_done_ = true;
    if (why_ == Why::kRuns) why_ = Why::kGone;
  }
  Wake();
}

void ExecSession::EndWithAttempt() {
  {
    std::lock_guard lock(mutex_);
    why_ = Why::kAttemptEnded;
    if (leader_ > 0) kill(-leader_, SIGKILL);
  }
  Wake();
}

void ExecSession::Stop() {
  {
    std::lock_guard lock(mutex_);
    if (why_ != Why::kAttemptEnded) why_ = Why::kStopping;
  }
  Wake();
}

bool ExecSession::IsOver() {
  std::lock_guard lock(mutex_);
  return is_over_;
}

ExecSession::Why ExecSession::why() {
  std::lock_guard lock(mutex_);
  return why_;
}

std::shared_ptr<ExecStream> ExecSession::stream() {
  std::lock_guard lock(mutex_);
  return stream_;
}

void ExecSession::Run() {
  ExecProcess process;
  v1::ExecEnded ended;
  if (why() == Why::kRuns && StartInRank(setup_, order_, &process, &ended)) {
    {
      std::lock_guard lock(mutex_);
      leader_ = process.pid;
    }
    v1::ExecOutput output;
    output.mutable_started()->set_node(setup_.node);
    output.mutable_started()->set_attempt(order_.attempt());
    stream()->Write(std::move(output));
    Pump(process);
    {
      std::lock_guard lock(mutex_);
      leader_ = -1;
    }
    ended = ReapExec(process.pid);
    if (ended.signal() > 0 && WentWithAttempt(ended)) ended.set_problem(kAttemptEnded);
  } else if (ended.problem().empty()) {
    ended.set_exit_code(kExitCannotStart);
    ended.set_problem(kAttemptEnded);
  }
  common::LogInfo(common::StrCat("a command in rank ", order_.rank(), " ended job=", order_.job(),
                                 " attempt=", order_.attempt(), " by=", order_.by(),
                                 " exit=", ended.exit_code(), " signal=", ended.signal(),
                                 ended.problem().empty() ? "" : " reason=\"", ended.problem(),
                                 ended.problem().empty() ? "" : "\""));
  WriteEnded(std::move(ended));
  WaitUntilGone();
}

// If the node kills the attempt's cgroup, the command dies before the attempt is reported as over. So after a
// SIGKILL that this session did not send, it waits for that report.
bool ExecSession::WentWithAttempt(const v1::ExecEnded& ended) {
  const int64_t until_ms = common::MonotonicMs() + kAttemptsEndMs;
  while (ended.signal() == SIGKILL && why() == Why::kRuns) {
    const int64_t left_ms = until_ms - common::MonotonicMs();
    if (left_ms <= 0) break;
    WaitForWake(static_cast<int>(left_ms));
  }
  return why() == Why::kAttemptEnded;
}

void ExecSession::Pump(ExecProcess& process) {
  const common::UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0)));
  bool exited = false;
  while (!exited && why() == Why::kRuns) PollOnce(process, pidfd.get(), &exited);
  if (!exited) Kill(process.pid, pidfd.get());
  KillExec(setup_, order_, process.pid);
  process.in.Reset();
  Drain(process);
}

void ExecSession::PollOnce(ExecProcess& process, int pidfd, bool* exited) {
  const bool has_room = stream()->Waiting() < kMessagesWaitingMax;
  const bool feeds = process.in.valid() && (!input_.empty() || input_ended_);
  pollfd fds[] = {{wake_.get(), POLLIN, 0},
                  {pidfd, POLLIN, 0},
                  {feeds ? process.in.get() : -1, POLLOUT, 0},
                  {has_room && process.out.valid() ? process.out.get() : -1, POLLIN, 0},
                  {has_room && process.err.valid() ? process.err.get() : -1, POLLIN, 0}};
  if (poll(fds, std::size(fds), kForever) < 0) return;
  if (fds[0].revents != 0) {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(wake_.get(), &count, sizeof count);
    TakeInput(process);
  }
  if (fds[2].revents != 0) Feed(process);
  if (fds[3].revents != 0) ReadFrom(process.out, false);
  if (fds[4].revents != 0) ReadFrom(process.err, true);
  *exited = fds[1].revents != 0;
}

void ExecSession::TakeInput(ExecProcess& process) {
  std::deque<v1::ExecInput> taken;
  {
    std::lock_guard lock(mutex_);
    taken.swap(inbox_);
  }
  for (v1::ExecInput& message : taken) {
    Apply(process, std::move(message));
    owes_next_ = true;
  }
  if (owes_next_ && input_.size() < kInputBytesMax) {
    owes_next_ = false;
    stream()->Next();
  }
}

void ExecSession::Apply(ExecProcess& process, v1::ExecInput message) {
  switch (message.what_case()) {
    case v1::ExecInput::kStdin:
      if (process.in.valid() && !input_ended_) input_.append(message.stdin());
      break;
    case v1::ExecInput::kStdinEnd:
      input_ended_ = true;
      break;
    case v1::ExecInput::kSize:
      if (process.has_terminal) SetTerminalSize(process.out.get(), message.size());
      break;
    case v1::ExecInput::kSignal:
      if (message.signal() > 0 && message.signal() < NSIG)
        kill(-process.pid, static_cast<int>(message.signal()));
      break;
    default:
      break;
  }
}

void ExecSession::Feed(ExecProcess& process) {
  if (!input_.empty()) {
    const ssize_t count = write(process.in.get(), input_.data(), input_.size());
    if (count > 0) {
      input_.erase(0, static_cast<size_t>(count));
      TakeInput(process);  // there may be room for more now
    } else if (count < 0 && errno != EAGAIN && errno != EINTR) {
      process.in.Reset();  // the command does not read it
      input_.clear();
      return TakeInput(process);
    }
  }
  if (!input_.empty() || !input_ended_) return;
  if (process.has_terminal) {
    [[maybe_unused]] const ssize_t written = write(process.in.get(), &kEndOfInput, 1);
  }
  process.in.Reset();
}

bool ExecSession::ReadFrom(common::UniqueFd& fd, bool is_err) {
  std::string bytes(kOutputBytesMax, '\0');
  const ssize_t count = read(fd.get(), bytes.data(), bytes.size());
  if (count <= 0) {
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    fd.Reset();  // a terminal that all processes have closed returns EIO
    return false;
  }
  bytes.resize(static_cast<size_t>(count));
  v1::ExecOutput output;
  (is_err ? *output.mutable_stderr() : *output.mutable_stdout()) = std::move(bytes);
  stream()->Write(std::move(output));
  return true;
}

void ExecSession::Kill(pid_t pid, int pidfd) {
  const Why reason = why();
  if (reason == Why::kAttemptEnded) {
    KillExec(setup_, order_, pid);
  } else {
    SignalExec(setup_, order_, pid, SIGTERM);
    SignalExec(setup_, order_, pid, SIGCONT);
    pollfd exited{pidfd, POLLIN, 0};
    if (poll(&exited, 1, reason == Why::kStopping ? kStopGraceMs : kGraceMs) != 1)
      KillExec(setup_, order_, pid);
  }
  pollfd exited{pidfd, POLLIN, 0};
  while (!HasExited(pid)) poll(&exited, 1, kForever);
}

// Reads what it wrote before its end. All processes that could write more are dead, except those that
// left its session: it does not wait for these.
void ExecSession::Drain(ExecProcess& process) {
  while ((process.out.valid() || process.err.valid()) && WaitForRoom()) {
    if (process.out.valid() && !ReadFrom(process.out, false)) process.out.Reset();
    if (process.err.valid() && !ReadFrom(process.err, true)) process.err.Reset();
  }
}

// False: the output has no reader any more.
bool ExecSession::WaitForRoom() {
  while (true) {
    {
      std::lock_guard lock(mutex_);
      if (is_done_ || why_ == Why::kStopping) return false;
    }
    if (stream()->Waiting() < kMessagesWaitingMax) return true;
    WaitForWake(kForever);
  }
}

void ExecSession::WaitForWake(int timeout_ms) {
  pollfd woken{wake_.get(), POLLIN, 0};
  poll(&woken, 1, timeout_ms);
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(wake_.get(), &count, sizeof count);
}

void ExecSession::WriteEnded(v1::ExecEnded ended) {
  v1::ExecOutput output;
  *output.mutable_ended() = std::move(ended);
  stream()->Write(std::move(output));
}

// The coordinator ends the stream once it has the last message.
void ExecSession::WaitUntilGone() {
  bool is_cancelled = false;
  while (true) {
    bool cancels = false;
    std::shared_ptr<ExecStream> last;  // destroyed without the lock
    {
      std::lock_guard lock(mutex_);
      if (is_done_) {
        is_over_ = true;
        last = std::move(stream_);
        return;
      }
      cancels = why_ == Why::kStopping && !is_cancelled;
    }
    if (cancels) {
      is_cancelled = true;
      stream()->Cancel();
    }
    WaitForWake(kForever);
  }
}

void ExecSessions::Start(v1::ExecOrder order, const ExecSession::Connect& connect) {
  sessions_.remove_if([](const auto& session) { return session->IsOver(); });
  // Muster's coordinator never orders so many; it will report that the command did not start.
  if (sessions_.size() >= kAtOnce) return;
  common::LogInfo(common::StrCat(
      "a command in rank ", order.rank(), " begins job=", order.job(), " attempt=", order.attempt(),
      " by=", order.by(), " command=\"",
      common::Printable(order.command_size() > 0 ? order.command(0) : std::string()), "\""));
  auto session = std::make_shared<ExecSession>(setup_, std::move(order));
  sessions_.push_back(session);
  ExecSession::Open(session, connect);
  // In its own lane.
  threads_.Post({++last_lane_, 0}, Work::kExec, [session] { session->Run(); });
}

void ExecSessions::EndAttempt(const AttemptKey& key) {
  for (const auto& session : sessions_) {
    if (session->key() == key) session->EndWithAttempt();
  }
}

bool ExecSessions::Shutdown(std::chrono::milliseconds wait) {
  for (const auto& session : sessions_) session->Stop();
  return threads_.Shutdown(wait);
}

}  // namespace muster::worker
