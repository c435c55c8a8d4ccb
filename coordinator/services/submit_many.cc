#include "coordinator/services/submit_many.h"

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "common/problem.h"
#include "coordinator/rpc/audited.h"
#include "coordinator/rpc/handlers.h"
#include "coordinator/services/streams.h"

namespace muster::coordinator {
namespace {

// Submits in progress at once; reading resumes as answers arrive.
constexpr size_t kUnderWayMax = 4'096;

class SubmitManyStream final : public DuplexStream<v1::SubmitRequest, v1::SubmitResponse> {
 public:
  SubmitManyStream(Daemon& daemon, Caller caller) : daemon_(daemon), caller_(std::move(caller)) {}

 private:
  void OnMessage(v1::SubmitRequest request) override {
    uint64_t number = 0;
    bool read_next = false;
    {
      std::lock_guard lock(mutex_);
      number = first_ + answers_.size();
      answers_.emplace_back();
      read_next = answers_.size() < kUnderWayMax;
      paused_ = !read_next;
    }
    auto self = std::static_pointer_cast<SubmitManyStream>(shared_from_this());
    const auto answered = [self, number](absl::StatusOr<v1::SubmitResponse> answer) {
      v1::SubmitResponse response;
      if (answer.ok()) {
        response = *std::move(answer);
      } else {
        response.set_status_code(static_cast<int>(answer.status().code()));
        response.set_status_message(std::string(answer.status().message()));
        v1::ErrorDetail detail;
        if (common::CopyDetail(answer.status(), &detail)) {
          *response.mutable_error() = std::move(detail);
        }
      }
      self->OnAnswer(number, std::move(response));
    };
    RunAuditedAs<v1::SubmitResponse>(
        daemon_, {"SubmitMany", Action::kSubmit, Object::kJob, Way::kGrpc}, caller_, request,
        answered, [&](Answer<v1::SubmitResponse> answer) {
          Submit(daemon_, caller_, request, std::move(answer));
        });
    if (read_next) ReadNext();
  }

  void OnAnswer(uint64_t number, v1::SubmitResponse response) {
    bool read_next = false;
    bool close = false;
    {
      std::lock_guard lock(mutex_);
      answers_[number - first_] = std::move(response);
      // Written under the lock: the order is guaranteed, and Enqueue never waits.
      while (!answers_.empty() && answers_.front().has_value()) {
        Enqueue(*std::move(answers_.front()));
        answers_.pop_front();
        ++first_;
      }
      if (paused_ && answers_.size() < kUnderWayMax / 2) {
        paused_ = false;
        read_next = true;
      }
      close = half_closed_ && answers_.empty();
    }
    if (read_next) ReadNext();
    if (close) EnqueueClose(absl::OkStatus());
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

  Daemon& daemon_;
  const Caller caller_;
  std::mutex mutex_;  // guards what follows
  std::deque<std::optional<v1::SubmitResponse>> answers_;
  uint64_t first_ = 0;  // number of answers_.front()
  bool paused_ = false;
  bool half_closed_ = false;
};

}  // namespace

grpc::ServerBidiReactor<v1::SubmitRequest, v1::SubmitResponse>* BeginSubmitMany(
    Daemon& daemon, const Caller& caller) {
  auto stream = std::make_shared<SubmitManyStream>(daemon, caller);
  stream->Begin();
  return stream.get();
}

}  // namespace muster::coordinator
