#include "coordinator/rpc/worker_session.h"

#include <utility>

#include "common/limits.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/text.h"
#include "coordinator/core/decide.h"
#include "coordinator/notify/notifier.h"
#include "coordinator/rpc/diagnosis.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr size_t kPieceBytesMax = 256 << 20;  // total over all streams

}  // namespace

absl::Status WorkerSession::CheckRegistration(const v1::Register& registration) const {
  const v1::NodeFacts& facts = registration.facts();
  RETURN_IF_ERROR(JudgeProtocol("muster-worker", facts.version(), facts.protocol()));
  if (facts.name().empty() || facts.name().size() > common::kNameBytesMax ||
      !common::IsCleanUtf8(facts.name())) {
    return common::MakeProblem(
        absl::StatusCode::kInvalidArgument,
        {.code = "JC1407",
         .what = StrCat("\"", common::Printable(facts.name().substr(0, common::kNameBytesMax)),
                        "\" is not a valid node name: a name is 1 to ", common::kNameBytesMax,
                        " bytes of UTF-8 without control characters"),
         .fix = "start muster-worker with another --name"});
  }
  if (registration.highest_epoch() > daemon_.epoch) {
    return common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1310",
         .what = StrCat("node ", facts.name(),
                        " has already taken commands from a coordinator of epoch ",
                        registration.highest_epoch(), "; this one has epoch ", daemon_.epoch,
                        ": it was started on an older data directory"),
         .fix = "start it on the newest one"});
  }
  return absl::OkStatus();
}

void WorkerSession::OnPiece(v1::MessagePiece piece, std::function<void()> next) {
  if (pieces_.size() + piece.data().size() > common::kControlWholeBytesMax) {
    return Close(
        common::MakeProblem(absl::StatusCode::kResourceExhausted,
                            {.code = "JC1302",
                             .what = StrCat("a message from node ", node_, " exceeds ",
                                            common::kControlWholeBytesMax, " bytes in total")}));
  }
  pieces_ += piece.data();
  if ((daemon_.piece_bytes += piece.data().size()) > kPieceBytesMax) {
    return Close(common::MakeProblem(absl::StatusCode::kResourceExhausted,
                                     {.code = "JC1308",
                                      .what = "too many large messages from workers are in transit",
                                      .fix = "register again"}));
  }
  if (!piece.last()) return next();
  v1::WorkerMessage whole;
  daemon_.piece_bytes -= pieces_.size();
  const bool sound = whole.ParseFromString(std::exchange(pieces_, {})) && !whole.has_piece();
  if (!sound) {
    return Close(common::MakeProblem(
        absl::StatusCode::kInvalidArgument,
        {.code = "JC1302",
         .what = StrCat("the pieces that node ", node_, " sent do not form a valid message")}));
  }
  OnMessage(std::move(whole), std::move(next));
}

void WorkerSession::OnMessage(v1::WorkerMessage message, std::function<void()> next) {
  if (message.has_piece()) {
    return OnPiece(std::move(*message.mutable_piece()), std::move(next));
  }
  if (!registered_) {
    if (!message.has_register_()) {
      return Close(common::MakeProblem(
          absl::StatusCode::kFailedPrecondition,
          {.code = "JC1302",
           .what = "the first message of a control stream must be a registration"}));
    }
    const absl::Status status = CheckRegistration(message.register_());
    if (!status.ok()) return Close(status);
    session_ = daemon_.loop.NextSession();
    node_ = message.register_().facts().name();
    registered_ = true;
    common::LogInfo(StrCat("a worker registers node=", node_, " session=", session_,
                           " attempts=", message.register_().attempts_size()));
    auto sink = sink_.lock();
    if (sink == nullptr) return;
    daemon_.loop.Register(WorkerRegisteredInput{session_, std::move(*message.mutable_register_())},
                          std::move(sink));
    return next();
  }
  if (message.has_register_()) {
    return Close(
        common::MakeProblem(absl::StatusCode::kFailedPrecondition,
                            {.code = "JC1302", .what = "a control stream may register only once"}));
  }
  if (message.has_diagnosis()) {
    // For a waiting person, not a fact of the cluster: bypasses the control loop.
    daemon_.diagnoses.Take(node_, std::move(*message.mutable_diagnosis()));
    return next();
  }
  if (message.has_notify_ended()) {
    message.mutable_notify_ended()->set_node(node_);
    daemon_.notifier.Answered(std::move(*message.mutable_notify_ended()));
    return next();
  }
  daemon_.loop.Say(WorkerSaidInput{session_, node_, std::move(message)}, std::move(next));
}

void WorkerSession::OnGone() {
  daemon_.piece_bytes -= std::exchange(pieces_, {}).size();
  if (!registered_) return;
  common::LogInfo(StrCat("a worker's control stream ended node=", node_, " session=", session_));
  daemon_.loop.Say(WorkerGoneInput{session_, node_});
}

void WorkerSession::Close(const absl::Status& status) {
  common::LogWarning(StrCat("a worker was refused reason=\"", std::string(status.message()), "\""));
  if (const auto sink = sink_.lock()) sink->Close(status);
}

}  // namespace muster::coordinator
