#include "client/follow/follow.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "client/command_line/errors.h"
#include "client/connection/connection.h"
#include "client/follow/refusal.h"
#include "client/session/job_parts.h"
#include "client/session/session.h"
#include "client/terminal/signals.h"
#include "client/text/assessment_text.h"
#include "client/text/record_text.h"
#include "common/base/status.h"
#include "common/device_kinds.h"
#include "common/job/rules.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace muster::client {
namespace {

using common::StrCat;
using std::chrono::steady_clock;

// After a job's end its last output is still in transit; it may take a long time, but must make
// progress.
constexpr auto kLogsStandStill = std::chrono::seconds(15);
// Its output does not end: the job will continue.
constexpr std::chrono::seconds kLogsOfHeldStandStill{1};
constexpr auto kQueueTimeout = std::chrono::milliseconds(500);
constexpr int64_t kLookedAtMs = 2'000;
constexpr auto kReconnectLimit = std::chrono::seconds(60);

bool IsLost(const absl::Status& status) { return status.code() == absl::StatusCode::kUnavailable; }

// The attached run: one Run stream on the main thread, plus one log stream.
class AttachedRun {
 public:
  AttachedRun(Session& session, const v1::SubmitRequest& request, LogPrinter& printer)
      : session_(session), request_(request), printer_(printer) {}

  ~AttachedRun() { StopQueueNote(); }

  absl::StatusOr<int> Execute() {
    session_.DoNotRepeat();
    HandleSignals([this](int number, int count) { OnSignal(number, count); });
    ASSIGN_OR_RETURN(Connection * connection, session_.Connect());
    while (true) {
      Publish(connection);
      const absl::Status status = connection->Run(request_, [&](const v1::JobUpdate& update) {
        OnUpdate(*connection, update);
        return !record_.held();
      });
      const bool over = IsAtRest(record_);
      JoinLogs(*connection, over);
      if (over) break;
      Publish(nullptr);
      // The submit's key makes it safe to resend.
      if (!IsLost(status) || (name_.empty() && !session_.is_private()))
        return Broken(ExplainRefusal(status, request_.spec(), *connection));
      if (announced_) Note("lost the connection to the coordinator; reconnecting");
      ASSIGN_OR_RETURN(connection, Reconnect(session_, status));
    }
    Publish(nullptr);
    printer_.Finish();
    fflush(stdout);
    session_.Note(Verdict(record_, session_.terminal().color_err));
    SayFindings(*connection);
    if (interrupted_ && record_.state() == v1::JOB_STATE_CANCELLED) return kExitDetached;
    return RunExitCode(record_);
  }

 private:
  absl::Status Broken(const absl::Status& status) const {
    if (!status.ok()) return status;
    return common::MakeProblem(
        absl::StatusCode::kUnavailable,
        {.code = "JC1307",
         .what = "the coordinator ended the stream before the job was over",
         .fix = name_.empty() ? "try again" : StrCat("jobctl show ", name_)});
  }

  void Note(const std::string& line) {
    printer_.Aside([&] { session_.Note(line); });
  }

  // The signal thread also uses the connection; null while there is none.
  void Publish(Connection* connection) {
    std::lock_guard lock(connection_mutex_);
    shared_connection_ = connection;
  }

  void OnUpdate(Connection& connection, const v1::JobUpdate& update) {
    {
      std::lock_guard lock(mutex_);
      record_ = update.record();
      changed_.notify_all();
    }
    if (name_.empty()) {
      std::lock_guard lock(mutex_);
      name_ = record_.name();
    }
    if (!record_.attempts().empty()) {
      printer_.SetRanks(record_.attempts().rbegin()->world_size());
    }
    Announce();
    if (!logs_.joinable()) StartLogs(connection);
  }

  // Prints what changed since the last update.
  void Announce() {
    if (!announced_ && record_.attempts_size() > 0) {
      announced_ = true;
      attempt_ = record_.attempts(record_.attempts_size() - 1).number();
      session_.Note(StrCat(name_, "  ", Layout(record_)));
      MaybeSayShared();
      return;
    }
    if (!announced_ && record_.state() == v1::JOB_STATE_QUEUED && !queue_note_.joinable()) {
      queue_note_ = std::thread([this] { SayWhatItWaitsFor(); });
    }
    SayNewAttempt();
  }

  // A private worker does not count cpu slots: with more ranks than cores it is just slower.
  void MaybeSayShared() {
    const v1::Attempt& attempt = record_.attempts(record_.attempts_size() - 1);
    const unsigned cores = std::thread::hardware_concurrency();
    if (!session_.is_private() || attempt.parts_size() == 0 ||
        !common::IsHostKind(attempt.parts(0).device_kind()) || cores == 0 ||
        attempt.world_size() <= cores) {
      return;
    }
    session_.Note(StrCat("note: ", attempt.world_size(), " ranks share ", cores,
                         cores == 1 ? " cpu" : " cpus", " of this machine"));
  }

  // Why there is another attempt. RESTARTING itself may be too short to be seen.
  void SayNewAttempt() {
    const int count = record_.attempts_size();
    if (count == 0) return;
    const uint32_t number = record_.attempts(count - 1).number();
    if (number > attempt_ && count > 1) {
      Note(StrCat("↻ ", common::Printable(record_.attempts(count - 2).reason()), "; attempt ",
                  number, " (restart ", record_.failures() + record_.node_losses(), ")"));
    }
    attempt_ = number;
  }

  // After a run that succeeded, prints the findings about all of it. Short runs have none.
  void SayFindings(Connection& connection) {
    if (record_.state() != v1::JOB_STATE_SUCCEEDED || record_.ran_ms() < kLookedAtMs) return;
    const absl::StatusOr<v1::Assessment> assessment = connection.AssessJob(name_);
    if (!assessment.ok() || assessment->findings().empty()) return;
    const std::string text = FindingLines(*assessment, session_.terminal());
    session_.Note(text.substr(0, text.find_last_not_of('\n') + 1));
  }

  // A job that waits only briefly needs no note.
  void SayWhatItWaitsFor() {
    std::unique_lock lock(mutex_);
    std::string said;
    while (record_.state() == v1::JOB_STATE_QUEUED && !ended_) {
      if (changed_.wait_for(lock, kQueueTimeout) != std::cv_status::timeout) continue;
      if (record_.state() != v1::JOB_STATE_QUEUED || ended_ || record_.reason() == said) continue;
      said = record_.reason();
      session_.Note(StrCat(name_, "  queued: ", common::Printable(said)));
    }
  }

  void StopQueueNote() {
    {
      std::lock_guard lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    }
    if (queue_note_.joinable()) queue_note_.join();
  }

  void StartLogs(Connection& connection) {
    if (follower_ == nullptr) {
      v1::StreamLogsRequest request;
      request.set_job(std::to_string(record_.id()));
      request.set_follow(true);
      request.set_attempt(-1);
      follower_ = std::make_unique<LogFollower>(request, &printer_);
    }
    logs_done_ = false;
    logs_ = std::thread([this, &connection] {
      const absl::Status status = follower_->Follow(connection);
      std::lock_guard lock(mutex_);
      logs_done_ = true;
      logs_status_ = status;
      changed_.notify_all();
    });
  }

  void JoinLogs(Connection& connection, bool over) {
    if (!logs_.joinable()) return;
    {
      std::unique_lock lock(mutex_);
      uint64_t seen = follower_->records();
      const auto stands_still = record_.held() ? kLogsOfHeldStandStill : kLogsStandStill;
      while (!logs_done_ && over) {
        if (changed_.wait_for(lock, stands_still) == std::cv_status::timeout) {
          if (follower_->records() == seen) break;
          seen = follower_->records();
        }
      }
      if (!logs_done_) {
        lock.unlock();
        if (over && !record_.held())
          Note(StrCat("more output is still arriving: jobctl logs ", name_));
        connection.CancelStreams();
        lock.lock();
      }
    }
    logs_.join();
    if (over && !logs_status_.ok() && logs_status_.code() != absl::StatusCode::kCancelled) {
      session_.Note(StrCat("the output is incomplete here (", Sentence(logs_status_),
                           "); for all of it: jobctl logs ", name_));
    }
  }

  void OnSignal(int number, int count) {
    printer_.StopBars();  // the screen is for what Ctrl-C does
    // Held during the request below, so that the connection stays open.
    std::lock_guard connection_lock(connection_mutex_);
    Connection* connection = shared_connection_;
    std::string name;
    uint32_t grace_ms = 0;
    {
      std::lock_guard lock(mutex_);
      name = name_;
      grace_ms = record_.spec().grace_ms() > 0 ? record_.spec().grace_ms() : job::kDefaultGraceMs;
      interrupted_ = true;
    }
    // Nothing was submitted yet, or it cannot be stopped from here: the end of our stream cancels
    // the job.
    if (connection == nullptr || name.empty() || count > 2) _exit(128 + number);
    v1::CancelJobsRequest request;
    request.add_jobs(name);
    request.set_reason(StrCat(SignalName(number), " at the attached client"));
    if (count == 1) {
      session_.Note(StrCat("\nstopping ", name, " (grace ", common::HumanDuration(grace_ms),
                           "; Ctrl-C again kills it)"));
    } else {
      request.set_has_grace(true);
      request.set_grace_ms(0);
      session_.Note(StrCat("\nkilling ", name));
    }
    if (const auto cancelled = connection->CancelJobs(request); !cancelled.ok()) {
      session_.Note(StrCat("the job could not be stopped: ", Sentence(cancelled.status())));
    }
  }

  Session& session_;
  const v1::SubmitRequest& request_;
  LogPrinter& printer_;
  std::unique_ptr<LogFollower> follower_;
  std::thread logs_;
  std::thread queue_note_;
  bool announced_ = false;
  uint32_t attempt_ = 0;

  std::mutex connection_mutex_;  // guards shared_connection_; taken before mutex_
  Connection* shared_connection_ = nullptr;
  std::mutex mutex_;  // guards all below, shared with the signal and log threads
  std::condition_variable changed_;
  v1::JobRecord record_;
  std::string name_;
  bool ended_ = false;
  bool logs_done_ = false;
  absl::Status logs_status_;
  std::atomic<bool> interrupted_{false};
};

}  // namespace

LogFollower::LogFollower(v1::StreamLogsRequest request, LogPrinter* printer,
                         std::function<void()> on_attempt)
    : request_(std::move(request)), printer_(printer), on_attempt_(std::move(on_attempt)) {}

absl::Status LogFollower::Follow(Connection& connection) {
  request_.clear_resume();
  for (const auto& [key, offset] : positions_) {
    v1::LogPosition* position = request_.add_resume();
    position->set_attempt(std::get<0>(key));
    position->set_rank(std::get<1>(key));
    position->set_stream(static_cast<v1::LogStream>(std::get<2>(key)));
    position->set_offset(offset);
  }
  // The tail was already shown; a resumed stream continues from its positions.
  if (!positions_.empty()) request_.clear_tail_lines();
  return connection.StreamLogs(request_, [this](const v1::LogRecord& record) {
    if (record.notice().empty()) {
      uint64_t& position = positions_[{record.attempt(), record.rank(), record.stream()}];
      position = std::max<uint64_t>(position, record.offset() + record.data().size());
      // A part that was searched without a match need not be searched again.
      if (record.has_searched_to()) position = std::max<uint64_t>(position, record.searched_to());
      if (int64_t{record.attempt()} > attempt_ && on_attempt_) on_attempt_();
      attempt_ = std::max(attempt_, int64_t{record.attempt()});
    }
    ++records_;
    if (!record.data().empty() || !record.notice().empty() || record.matches() > 0) any_ = true;
    printer_->Write(record);
    return !printer_->Done();
  });
}

absl::StatusOr<Connection*> Reconnect(Session& session, const absl::Status& lost) {
  session.Disconnect();
  const auto deadline = steady_clock::now() + kReconnectLimit;
  auto pause = std::chrono::milliseconds(100);
  while (steady_clock::now() < deadline) {
    std::this_thread::sleep_for(pause);
    const absl::StatusOr<Connection*> connection = session.Connect();
    if (connection.ok() || connection.status().code() != absl::StatusCode::kUnavailable)
      return connection;
    pause = std::min(pause * 2, std::chrono::milliseconds(2000));
  }
  return lost;
}

absl::StatusOr<int> RunAttached(Session& session, const v1::SubmitRequest& request,
                                LogPrinter::Options options) {
  options.follows = true;
  LogPrinter printer(std::move(options), session.terminal());
  RETURN_IF_ERROR(printer.Prepare());
  return AttachedRun(session, request, printer).Execute();
}

void SubmitInterruptibly(Session& session) {
  HandleSignals([&session](int number, int) {
    session.Note("\ninterrupted; to see whether the job was submitted: jobctl ls");
    _exit(128 + number);
  });
}

void DetachFrom(Session& session, const std::string& name, const std::string& again) {
  HandleSignals([&session, name, again](int number, int) {
    session.Note(StrCat("\ndetached; ", name, " keeps running. To reattach: jobctl ", again, " ",
                        name, "   to stop it: jobctl cancel ", name));
    _exit(128 + number);
  });
}

absl::StatusOr<int> FollowJob(Session& session, const v1::StreamLogsRequest& request,
                              LogPrinter::Options options, bool propagate) {
  // A job that is followed may not have started yet, and its next attempt may have more ranks.
  const bool asks_for_ranks =
      request.follow() && options.fold_ranks > 0 && session.terminal().out_is_tty;
  options.follows = request.follow();
  LogPrinter printer(std::move(options), session.terminal());
  RETURN_IF_ERROR(printer.Prepare());
  const std::string job = request.job();
  session.DoNotRepeat();
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  const auto ask_for_ranks = [&] {
    const absl::StatusOr<v1::GetJobResponse> response = connection->GetJob(job);
    if (response.ok()) printer.SetRanks(RanksShown(response->record(), request));
  };
  LogFollower follower(request, &printer, asks_for_ranks ? ask_for_ranks : std::function<void()>());
  absl::Status status = follower.Follow(*connection);
  while (request.follow() && IsLost(status)) {
    ASSIGN_OR_RETURN(connection, Reconnect(session, status));
    status = follower.Follow(*connection);
  }
  printer.Finish();
  RETURN_IF_ERROR(status);
  if (!request.follow()) {
    if (!follower.any()) {
      session.Note(request.has_filter() ? "no line like that (yet)" : "no output (yet)");
    }
    return kExitOk;
  }
  ASSIGN_OR_RETURN(const v1::GetJobResponse response, connection->GetJob(job));
  if (!IsOver(response.record().state())) return kExitOk;
  session.Note(Verdict(response.record(), session.terminal().color_err));
  return WaitExitCode(response.record(), propagate);
}

absl::StatusOr<int> FollowNewJob(Session& session, const v1::SubmitResponse& submitted,
                                 bool propagate, bool folds) {
  v1::StreamLogsRequest request;
  request.set_job(std::to_string(submitted.job()));
  request.set_follow(true);
  request.set_attempt(-1);
  DetachFrom(session, submitted.name(), "logs -f");
  LogPrinter::Options options;
  options.fold_ranks = folds ? 1 : 0;
  return FollowJob(session, request, options, propagate);
}

}  // namespace muster::client
