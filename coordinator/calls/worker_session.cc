#include "coordinator/calls/worker_session.h"

#include <chrono>
#include <utility>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/contexts/diagnoses.h"
#include "coordinator/core/decide/decide.h"
#include "coordinator/gates/part_bytes.h"
#include "coordinator/notify/notifier.h"
#include "coordinator/stores/shortage.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr size_t kPieceBytesMax = 256 << 20;  // total over all streams
constexpr std::chrono::milliseconds kLookAgainAfter{500};

bool HasParts(const v1::WorkerMessage& message) {
  return message.has_checkpoint_part() || message.register_().checkpoint_parts_size() > 0;
}

// Why each part of the message cannot count, in order; an empty text: it may. An error: no verdict.
absl::StatusOr<std::vector<std::string>> ProblemsOfParts(Blobs& blobs, const NodeIdentity& sender,
                                                         const v1::WorkerMessage& message) {
  std::vector<std::string> problems;
  const auto look = [&](const v1::CheckpointPartReady& part) -> absl::Status {
    const absl::Status status =
        CheckPartBytes(blobs, ProofOwner(sender, part.job(), part.attempt()), part);
    if (IsShortage(status)) return status;
    problems.emplace_back(status.message());
    return absl::OkStatus();
  };
  if (message.has_checkpoint_part()) RETURN_IF_ERROR(look(message.checkpoint_part()));
  for (const v1::CheckpointPartReady& part : message.register_().checkpoint_parts())
    RETURN_IF_ERROR(look(part));
  return problems;
}

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
  if (caller_.is_certified && facts.name() != caller_.node) {
    return common::MakeProblem(
        absl::StatusCode::kPermissionDenied,
        {.code = "JC1342",
         .what = StrCat(Describe(caller_), " registers as node ", facts.name()),
         .fix = StrCat("start the worker under the name that it joined with, or join as ",
                       facts.name())});
  }
  if (registration.highest_epoch() > instance_.epoch) {
    return common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1310",
         .what = StrCat("node ", facts.name(),
                        " has already taken commands from a coordinator of epoch ",
                        registration.highest_epoch(), "; this one has epoch ", instance_.epoch,
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
  if ((traffic_.piece_bytes += piece.data().size()) > kPieceBytesMax) {
    return Close(common::MakeProblem(absl::StatusCode::kResourceExhausted,
                                     {.code = "JC1308",
                                      .what = "too many large messages from workers are in transit",
                                      .fix = "register again"}));
  }
  if (!piece.last()) return next();
  v1::WorkerMessage whole;
  traffic_.piece_bytes -= pieces_.size();
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
    return OnRegister(std::move(message), std::move(next));
  }
  if (message.has_register_()) {
    return Close(
        common::MakeProblem(absl::StatusCode::kFailedPrecondition,
                            {.code = "JC1302", .what = "a control stream may register only once"}));
  }
  if (message.has_diagnosis()) {
    // For a waiting person, not part of the cluster's state: bypasses the control loop.
    const bool is_its_own = jobs_.diagnoses.Take(node_, std::move(*message.mutable_diagnosis()));
    if (!is_its_own) {
      TellDenied(traffic_, {Denied::kDiagnosis, StrCat("a record of a rank from node ", node_,
                                                       " refused: it does not run there")});
    }
    return next();
  }
  if (message.has_notify_ended()) {
    message.mutable_notify_ended()->set_node(node_);
    jobs_.notifier.Answered(std::move(*message.mutable_notify_ended()));
    return next();
  }
  if (message.has_heartbeat())
    return jobs_.loop.Say(WorkerSaidInput{session_, node_, std::move(message)}, std::move(next));
  SayInOrder({.message = std::move(message), .next = std::move(next)});
}

void WorkerSession::OnRegister(v1::WorkerMessage message, std::function<void()> next) {
  const absl::Status status = CheckRegistration(message.register_());
  if (!status.ok()) {
    if (common::CodeOf(status) == "JC1342") traffic_.denied.Add(Denied::kRegistration);
    return Close(status);
  }
  session_ = jobs_.loop.NextSession();
  node_ = message.register_().facts().name();
  registered_ = true;
  common::LogInfo(StrCat("a worker registers node=", node_, " session=", session_,
                         " attempts=", message.register_().attempts_size()));
  auto sink = sink_.lock();
  if (sink == nullptr) return;
  SayInOrder({.message = std::move(message), .sink = std::move(sink), .next = std::move(next)});
}

void WorkerSession::SayInOrder(Waiting said) {
  said.bytes = said.message.ByteSizeLong();
  std::function<void()> next;
  {
    std::unique_lock lock(mutex_);
    if (!is_taking_ && !HasParts(said.message)) {
      lock.unlock();
      return Say(std::move(said), {});
    }
    // Later messages are read only while there is room for them.
    waiting_bytes_ += said.bytes;
    if (waiting_bytes_ <= kWaitingBytesMax) next = std::exchange(said.next, nullptr);
    waiting_.push_back(std::move(said));
    if (!std::exchange(is_taking_, true))
      process_.pool.Post([self = shared_from_this()] { self->TakeWaiting(); });
  }
  if (next) next();
}

void WorkerSession::TakeWaiting() {
  while (true) {
    Waiting said;
    {
      std::unique_lock lock(mutex_);
      if (waiting_.empty()) {
        is_taking_ = false;
        const bool is_gone = is_gone_;
        lock.unlock();
        if (is_gone) SayGone();
        return;
      }
      said = std::move(waiting_.front());
      waiting_.pop_front();
    }
    absl::StatusOr<std::vector<std::string>> problems =
        ProblemsOfParts(stores_.blobs, caller_, said.message);
    std::unique_lock lock(mutex_);
    if (!problems.ok()) {
      waiting_.push_front(std::move(said));
      return process_.pool.PostAfter(kLookAgainAfter,
                                     [self = shared_from_this()] { self->TakeWaiting(); });
    }
    waiting_bytes_ -= said.bytes;
    lock.unlock();
    Say(std::move(said), *std::move(problems));
  }
}

void WorkerSession::Say(Waiting said, std::vector<std::string> part_problems) {
  if (said.message.has_register_()) {
    jobs_.loop.Register(
        {session_, std::move(*said.message.mutable_register_()), std::move(part_problems)},
        std::move(said.sink));
    if (said.next) said.next();
    return;
  }
  WorkerSaidInput input{session_, node_, std::move(said.message)};
  if (!part_problems.empty()) input.part_problem = std::move(part_problems.front());
  jobs_.loop.Say(std::move(input), std::move(said.next));
}

void WorkerSession::OnTooLarge(const v1::CoordinatorMessage& order) {
  const size_t bytes = order.ByteSizeLong();
  // Happens only with an older worker, which gets a checkpoint's files within the order.
  OnUnsendable(order, absl::InvalidArgumentError(
                          StrCat("the order to start ranks on ", node_, " has ", bytes,
                                 " bytes, of ", common::kControlMessageBytesMax,
                                 " that a worker takes; fix: update muster-worker there")));
}

void WorkerSession::OnUnsendable(const v1::CoordinatorMessage& order, const absl::Status& why) {
  common::LogError(StrCat("an order for node ", node_, " was not sent: ", common::MessageOf(why)));
  const bool starts = order.has_launch() || order.has_prepare();
  if (!starts) return;
  v1::WorkerMessage message;
  v1::AttemptStatus& status = *message.mutable_attempt_status();
  status.set_job(order.has_launch() ? order.launch().job() : order.prepare().job());
  status.set_attempt(order.has_launch() ? order.launch().attempt() : order.prepare().attempt());
  status.set_phase(v1::ATTEMPT_PHASE_ENDED);
  status.set_how_ended("never launched");
  status.set_failure_cause(v1::STOP_CAUSE_LAUNCH_FAILED);
  status.set_failure(std::string(why.message()));
  jobs_.loop.Say(WorkerSaidInput{session_, node_, std::move(message)});
}

void WorkerSession::OnGone() {
  traffic_.piece_bytes -= std::exchange(pieces_, {}).size();
  if (!registered_) return;
  common::LogInfo(StrCat("a worker's control stream ended node=", node_, " session=", session_));
  {
    std::lock_guard lock(mutex_);
    is_gone_ = true;
    if (is_taking_) return;
  }
  SayGone();
}

void WorkerSession::SayGone() { jobs_.loop.Say(WorkerGoneInput{session_, node_}); }

void WorkerSession::Close(const absl::Status& status) {
  common::LogWarning(StrCat("a worker was refused reason=\"", std::string(status.message()), "\""));
  if (const auto sink = sink_.lock()) sink->Close(status);
}

}  // namespace muster::coordinator
