#include "coordinator/services/submit_many.h"

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "common/problem.h"
#include "coordinator/calls/audited.h"
#include "coordinator/calls/daemon.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/calls/request_limits.h"
#include "coordinator/services/streams.h"

namespace muster::coordinator {
namespace {

// Limits on submits in progress, the bytes of their requests, and answers that the client has not read; reading
// resumes as they decrease. With some room, they make up Cost::kSubmits.
constexpr size_t kUnderWayMax = 2'048;
constexpr size_t kRequestBytesMax = 8 << 20;
constexpr size_t kUnreadBytesMax = 1 << 20;

v1::SubmitResponse ResponseOf(absl::StatusOr<v1::SubmitResponse> answer) {
  if (answer.ok()) return *std::move(answer);
  v1::SubmitResponse response;
  response.set_status_code(static_cast<int>(answer.status().code()));
  response.set_status_message(std::string(answer.status().message()));
  v1::ErrorDetail detail;
  if (common::CopyDetail(answer.status(), &detail)) *response.mutable_error() = std::move(detail);
  return response;
}

class SubmitManyStream final : public DuplexStream<v1::SubmitRequest, v1::SubmitResponse> {
 public:
  SubmitManyStream(Daemon& daemon, Caller caller, CallBudget::Hold hold)
      : daemon_(daemon), caller_(std::move(caller)), hold_(std::move(hold)) {}

 private:
  void OnMessage(v1::SubmitRequest request) override {
    uint64_t number = 0;
    {
      std::lock_guard lock(mutex_);
      number = first_ + answers_.size();
      answers_.push_back({request.ByteSizeLong(), std::nullopt});
      request_bytes_ += answers_.back().request_bytes;
    }
    auto self = std::static_pointer_cast<SubmitManyStream>(shared_from_this());
    SubmitOne(request, [self, number](absl::StatusOr<v1::SubmitResponse> answer) {
      self->OnAnswer(number, ResponseOf(std::move(answer)));
    });
    {
      // Not earlier, because the jobs get their numbers in the order of the requests.
      std::lock_guard lock(mutex_);
      paused_ = true;
    }
    ReadOn(kUnderWayMax);
  }

  void SubmitOne(const v1::SubmitRequest& request, Answer<v1::SubmitResponse> answer) {
    if (const absl::Status fits = CheckRequestLimits(request); !fits.ok()) return answer(fits);
    RunAuditedAs<v1::SubmitResponse>(daemon_.access, {kSubmitManyCall}, caller_, request,
                                     std::move(answer), [&](Answer<v1::SubmitResponse> audited) {
                                       call::Submit::Handle(daemon_, caller_, request,
                                                            std::move(audited));
                                     });
  }

  void OnAnswer(uint64_t number, v1::SubmitResponse response) {
    bool close = false;
    {
      std::lock_guard lock(mutex_);
      UnderWay& answered = answers_[number - first_];
      answered.response = std::move(response);
      request_bytes_ -= answered.request_bytes;
      // Written under the lock: the order is guaranteed, and Enqueue never waits.
      while (!answers_.empty() && answers_.front().response.has_value()) {
        Enqueue(*std::move(answers_.front().response));
        answers_.pop_front();
        ++first_;
      }
      close = half_closed_ && answers_.empty();
    }
    if (close) return EnqueueClose(absl::OkStatus());
    ReadOn(kUnderWayMax / 2);
  }

  // The client has read an answer.
  void OnWritten() override { ReadOn(kUnderWayMax / 2); }

  // Reads the next request, unless `below` or more are in progress or too many answers are unread.
  void ReadOn(size_t below) {
    {
      std::lock_guard lock(mutex_);
      if (!paused_ || answers_.size() >= below || request_bytes_ >= kRequestBytesMax ||
          Bytes() >= kUnreadBytesMax) {
        return;
      }
      paused_ = false;
    }
    ReadNext();
  }

  void OnHalfClose() override {
    bool close = false;
    {
      std::lock_guard lock(mutex_);
      half_closed_ = true;
      close = answers_.empty();
    }
    if (close) EnqueueClose(absl::OkStatus());
  }
  void OnGone() override {}

  struct UnderWay {
    size_t request_bytes = 0;
    std::optional<v1::SubmitResponse> response;
  };

  Daemon& daemon_;
  const Caller caller_;
  const CallBudget::Hold hold_;
  std::mutex mutex_;  // guards what follows
  std::deque<UnderWay> answers_;
  size_t request_bytes_ = 0;  // of those without an answer
  uint64_t first_ = 0;        // number of answers_.front()
  bool paused_ = false;       // no read is under way
  bool half_closed_ = false;
};

}  // namespace

grpc::ServerBidiReactor<v1::SubmitRequest, v1::SubmitResponse>* BeginSubmitMany(
    Daemon& daemon, const Caller& caller, CallBudget::Hold hold) {
  auto stream = std::make_shared<SubmitManyStream>(daemon, caller, std::move(hold));
  stream->Begin();
  return stream.get();
}

}  // namespace muster::coordinator
