// coordinator_link: one stream at a time; late messages from an older stream are dropped by
// generation.
#include "worker/links/coordinator_link.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/text/strings.h"
#include "muster/v1/worker_service.grpc.pb.h"
#include "worker/links/bidi_stream.h"
#include "worker/links/channel.h"
#include "worker/links/link_advice.h"

namespace muster::worker {
namespace {

// limit: nodes: reports for a coordinator that is not reading; the link is closed
constexpr size_t kOutboxMax = 10'000;  // reports queued for a coordinator that is not reading

using Control = BidiStream<v1::WorkerMessage, v1::CoordinatorMessage>;

}  // namespace

struct CoordinatorLink::Stream {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::WorkerService::Stub> stub;
  std::shared_ptr<Control> control;
  // Set by on_done, for Shutdown.
  struct Ended {
    std::mutex mutex;
    std::condition_variable changed;
    bool ended = false;
  };
  std::shared_ptr<Ended> ended = std::make_shared<Ended>();
};

CoordinatorLink::CoordinatorLink(std::function<Route()> route, Mailbox* loop, Callbacks callbacks,
                                 uint64_t jitter_seed)
    : route_(std::move(route)),
      loop_(loop),
      callbacks_(std::move(callbacks)),
      jitter_(jitter_seed) {}

CoordinatorLink::~CoordinatorLink() { Shutdown(); }

std::optional<int64_t> CoordinatorLink::NextDialMs() const {
  if (stream_ != nullptr || closing_) return std::nullopt;
  return next_dial_ms_;
}

void CoordinatorLink::MaybeDial(int64_t now_ms) {
  if (stream_ != nullptr || closing_ || now_ms < next_dial_ms_) return;
  const uint64_t generation = ++generation_;
  auto stream = std::make_shared<Stream>();
  dialed_ = route_();
  stream->channel = MakeChannel(dialed_, false);
  stream->stub = v1::WorkerService::NewStub(stream->channel);
  Control::Callbacks callbacks;
  callbacks.on_up = [] {};
  callbacks.on_written = [] {};
  callbacks.on_message = [this, generation](v1::CoordinatorMessage message) {
    loop_->Post([this, generation, message = std::move(message)]() mutable {
      if (generation != generation_ || stream_ == nullptr) return;
      callbacks_.message(std::move(message));
      if (stream_ != nullptr) stream_->control->Next();
    });
  };
  callbacks.on_done = [this, generation, ended = stream->ended](const grpc::Status& status) {
    const std::string reason = common::StrCat(status.error_message(), " (code ",
                                              static_cast<int>(status.error_code()), ")");
    loop_->Post([this, generation, reason] { OnDone(generation, reason); });
    std::lock_guard<std::mutex> lock(ended->mutex);
    ended->ended = true;
    ended->changed.notify_all();
  };
  stream->control = Control::Open(
      [&stream](grpc::ClientContext* context, Control* reactor) {
        stream->stub->async()->Connect(context, reactor);
      },
      std::move(callbacks));
  stream_ = std::move(stream);
  callbacks_.up();
}

void CoordinatorLink::OnDone(uint64_t generation, const std::string& reason) {
  if (generation != generation_ || stream_ == nullptr) return;
  stream_.reset();
  const bool is_renewal = std::exchange(is_renewing_, false);
  const int64_t ceiling = is_renewal ? 0 : DialPauseMaxMs(failures_++);
  next_dial_ms_ =
      common::MonotonicMs() + std::uniform_int_distribution<int64_t>(0, ceiling)(jitter_);
  if (!closing_ && !is_renewal)
    Note(common::StrCat("control stream ended coordinator=", dialed_.endpoint, " reason=\"", reason,
                        "\"", LinkAdvice(dialed_, reason)));
  callbacks_.down();
}

void CoordinatorLink::Note(const std::string& line) {
  if (line == last_note_) return;
  last_note_ = line;
  callbacks_.note(line);
}

void CoordinatorLink::Send(v1::WorkerMessage message) {
  if (stream_ == nullptr) return;
  if (stream_->control->Waiting() >= kOutboxMax) {
    return Reset("the coordinator is not reading the control stream");
  }
  if (message.ByteSizeLong() <= common::kControlPieceBytes) {
    stream_->control->Write(std::move(message));
    return;
  }
  const std::string whole = message.SerializeAsString();
  for (size_t at = 0; at < whole.size(); at += common::kControlPieceBytes) {
    v1::WorkerMessage piece;
    piece.mutable_piece()->set_data(whole.substr(at, common::kControlPieceBytes));
    piece.mutable_piece()->set_last(at + common::kControlPieceBytes >= whole.size());
    stream_->control->Write(std::move(piece));
  }
}

void CoordinatorLink::Reset(const std::string& reason) {
  if (stream_ == nullptr) return;
  Note(common::StrCat("control stream closed coordinator=", dialed_.endpoint, " reason=\"", reason,
                      "\""));
  stream_->control->Cancel();
}

void CoordinatorLink::Renew() {
  if (stream_ == nullptr) return;
  is_renewing_ = true;
  stream_->control->Cancel();
}

void CoordinatorLink::Shutdown() {
  closing_ = true;
  if (stream_ == nullptr) return;
  const std::shared_ptr<Stream> stream = std::move(stream_);
  stream->control->Cancel();
  std::unique_lock<std::mutex> lock(stream->ended->mutex);
  stream->ended->changed.wait(lock, [&] { return stream->ended->ended; });
}

}  // namespace muster::worker
