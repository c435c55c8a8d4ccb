// coordinator_link: one stream at a time; late messages from an older stream are dropped by
// generation.
#include "worker/links/coordinator_link.h"

#include <condition_variable>
#include <mutex>
#include <string_view>
#include <utility>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/problem.h"
#include "common/status_wire.h"
#include "common/text/strings.h"
#include "muster/v1/worker_service.grpc.pb.h"
#include "worker/base/addresses.h"
#include "worker/links/bidi_stream.h"
#include "worker/links/channel.h"
#include "worker/links/link_advice.h"

namespace muster::worker {
namespace {

// limit: nodes: reports for a coordinator that is not reading; the link is closed
constexpr size_t kOutboxMax = 10'000;  // reports queued for a coordinator that is not reading

using Control = BidiStream<v1::WorkerMessage, v1::CoordinatorMessage>;

constexpr std::string_view kStandsBy = "JC1630";

HeadRounds::End EndOf(const grpc::Status& status) {
  const absl::Status said =
      common::FromWire({.code = static_cast<absl::StatusCode>(status.error_code()),
                        .message = status.error_message(),
                        .details = status.error_details()});
  if (common::CodeOf(said) == kStandsBy) return HeadRounds::End::kStandsBy;
  switch (status.error_code()) {
    case grpc::StatusCode::ALREADY_EXISTS:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
      return HeadRounds::End::kRefused;
    default:
      return HeadRounds::End::kFailed;
  }
}

}  // namespace

struct CoordinatorLink::Connection {
  Route route;
  std::shared_ptr<grpc::Channel> channel;
};

struct CoordinatorLink::Stream {
  std::shared_ptr<Connection> connection;
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

CoordinatorLink::CoordinatorLink(Where where, Mailbox* loop, Callbacks callbacks,
                                 uint64_t jitter_seed)
    : where_(std::move(where)),
      loop_(loop),
      callbacks_(std::move(callbacks)),
      rounds_(jitter_seed) {}

CoordinatorLink::~CoordinatorLink() { Shutdown(); }

std::optional<int64_t> CoordinatorLink::NextDialMs() const {
  if (stream_ != nullptr || closing_) return std::nullopt;
  return next_dial_ms_;
}

// Of several coordinators, each has its own connection: a dial must not get the one that has just hung.
std::shared_ptr<CoordinatorLink::Connection> CoordinatorLink::ConnectionTo(const Route& route,
                                                                           bool has_several) const {
  const auto standby = standbys_.find(route.endpoint);
  if (standby != standbys_.end() && standby->second->route == route) return standby->second;
  return std::make_shared<Connection>(route, MakeChannel(route, has_several));
}

void CoordinatorLink::MaybeDial(int64_t now_ms) {
  if (stream_ != nullptr || closing_ || now_ms < next_dial_ms_) return;
  const uint64_t generation = ++generation_;
  auto stream = std::make_shared<Stream>();
  const std::vector<std::string> heads = where_.heads();
  dialed_ = where_.route(rounds_.Next(heads, now_ms));
  stream->connection = ConnectionTo(dialed_, heads.size() > 1);
  stream->stub = v1::WorkerService::NewStub(stream->connection->channel);
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
    loop_->Post(
        [this, generation, end = EndOf(status), reason] { OnDone(generation, end, reason); });
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

void CoordinatorLink::OnDone(uint64_t generation, HeadRounds::End end, const std::string& reason) {
  if (generation != generation_ || stream_ == nullptr) return;
  if (std::exchange(is_reset_, false)) end = HeadRounds::End::kAbandoned;
  if (std::exchange(is_renewing_, false)) end = HeadRounds::End::kRenewed;
  standbys_.erase(dialed_.endpoint);
  if (end == HeadRounds::End::kStandsBy) standbys_[dialed_.endpoint] = stream_->connection;
  stream_.reset();
  next_dial_ms_ = rounds_.Ended(end, common::MonotonicMs());
  if (!closing_) NoteEnd(end, reason);
  callbacks_.down();
}

void CoordinatorLink::Confirm() {
  rounds_.Leads();
  standbys_.clear();
}

void CoordinatorLink::NoteEnd(HeadRounds::End end, const std::string& reason) {
  if (end == HeadRounds::End::kRenewed) return;
  if (end == HeadRounds::End::kStandsBy)
    return Note(common::StrCat("coordinator stands by coordinator=", dialed_.endpoint));
  Note(common::StrCat("control stream ended coordinator=", dialed_.endpoint, " reason=\"", reason,
                      "\"", LinkAdvice(dialed_, reason)));
}

void CoordinatorLink::Note(const std::string& line) {
  if (last_notes_.size() > kHeadsMax) last_notes_.clear();  // addresses come and go
  if (line == std::exchange(last_notes_[dialed_.endpoint], line)) return;
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
  is_reset_ = true;
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
