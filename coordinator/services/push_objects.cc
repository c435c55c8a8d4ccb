#include "coordinator/services/push_objects.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include "common/problem.h"
#include "coordinator/calls/audited.h"
#include "coordinator/calls/daemon.h"
#include "coordinator/code/code_push.h"
#include "coordinator/code/code_uploads.h"
#include "coordinator/services/grpc_status.h"

namespace muster::coordinator {
namespace {

// A client that sends nothing must not keep others from sending the same object.
// limit: code: a stream without a byte; JC1705
constexpr std::chrono::seconds kSilenceMax{60};
constexpr std::chrono::seconds kLookedAtEvery{15};

class PushObjectsStream final : public grpc::ServerReadReactor<v1::ObjectChunk>,
                                public std::enable_shared_from_this<PushObjectsStream> {
 public:
  PushObjectsStream(Daemon& daemon, const Caller& caller, CallBudget::Hold hold,
                    v1::PushObjectsResponse* response)
      : daemon_(daemon),
        caller_(caller),
        hold_(std::move(hold)),
        response_(response),
        push_(std::make_shared<CodePush>(daemon.stores, daemon.job_code, daemon.access,
                                         daemon.process, caller)) {}

  void Begin() {
    self_ = shared_from_this();
    LookAgain(daemon_, weak_from_this());
    ReadNext();
  }

 private:
  using Steady = std::chrono::steady_clock;
  enum class State { kReading, kBusy, kOver };

  void ReadNext() {
    std::lock_guard lock(mutex_);
    state_ = State::kReading;
    since_ = Steady::now();
    StartRead(&chunk_);
  }

  void OnReadDone(bool ok) override {
    {
      std::lock_guard lock(mutex_);
      // The status is being sent.
      if (state_ == State::kOver) return;
      state_ = State::kBusy;
    }
    if (!ok) return End(absl::OkStatus());
    if (answer_ != nullptr) return Take();
    // The first chunk names the project, for the audit.
    v1::PrepareObjectsRequest audited;
    audited.set_project(chunk_.project());
    RunAuditedAs<v1::PushObjectsResponse>(
        daemon_.access, {kPushObjectsCall}, caller_, audited,
        [self = shared_from_this()](absl::StatusOr<v1::PushObjectsResponse> response) {
          if (response.ok()) *self->response_ = *std::move(response);
          self->Close(response.status());
        },
        [this](Answer<v1::PushObjectsResponse> answer) {
          answer_ = std::move(answer);
          if (const absl::Status may = daemon_.job_code.uploads.Enter(caller_.principal); !may.ok())
            return std::exchange(answer_, nullptr)(may);
          has_entered_ = true;
          Take();
        });
  }

  void Take() {
    push_->Take(std::exchange(chunk_, {}), [self = shared_from_this()](const absl::Status& taken) {
      if (taken.ok()) return self->ReadNext();
      self->End(taken);
    });
  }

  // The client has ended the stream, or it ends because of `why`.
  void End(const absl::Status& why) {
    push_->End(
        [self = shared_from_this(), why](const absl::StatusOr<v1::PushObjectsResponse>& totals) {
          if (self->has_entered_) self->daemon_.job_code.uploads.Leave(self->caller_.principal);
          const auto answer = std::exchange(self->answer_, nullptr);
          if (answer == nullptr) return self->Close(why.ok() ? totals.status() : why);
          if (why.ok()) return answer(totals);
          answer(why);
        });
  }

  void Close(const absl::Status& status) {
    {
      std::lock_guard lock(mutex_);
      state_ = State::kOver;
    }
    Finish(ToGrpc(status));
  }

  // Now and every few seconds, until the pool stops or the stream is gone.
  static void LookAgain(Daemon& daemon, const std::weak_ptr<PushObjectsStream>& weak) {
    daemon.process.pool.PostAfter(kLookedAtEvery, [&daemon, weak] {
      const auto stream = weak.lock();
      if (stream == nullptr) return;
      stream->EndIfSilent();
      LookAgain(daemon, weak);
    });
  }

  void EndIfSilent() {
    {
      std::lock_guard lock(mutex_);
      if (state_ != State::kReading || Steady::now() - since_ < kSilenceMax) return;
      state_ = State::kOver;
    }
    End(common::MakeProblem(
        absl::StatusCode::kUnavailable,
        {.code = "JC1705",
         .what = "the client sent nothing for 60 s",
         .fix = "submit again: received data stays for a day, and only the rest is sent"}));
  }

  void OnDone() override { const auto self = std::move(self_); }

  Daemon& daemon_;
  const Caller caller_;
  const CallBudget::Hold hold_;
  v1::PushObjectsResponse* const response_;
  const std::shared_ptr<CodePush> push_;
  v1::ObjectChunk chunk_;
  // Of the call in the audit; null before the first chunk and after the end.
  Answer<v1::PushObjectsResponse> answer_;
  bool has_entered_ = false;
  std::shared_ptr<PushObjectsStream> self_;

  std::mutex mutex_;  // guards what follows
  State state_ = State::kReading;
  Steady::time_point since_;
};

}  // namespace

grpc::ServerReadReactor<v1::ObjectChunk>* BeginPushObjects(Daemon& daemon, const Caller& caller,
                                                           CallBudget::Hold hold,
                                                           v1::PushObjectsResponse* response) {
  auto stream = std::make_shared<PushObjectsStream>(daemon, caller, std::move(hold), response);
  stream->Begin();
  return stream.get();
}

}  // namespace muster::coordinator
