#include "coordinator/exec/exec.h"

#include <utility>

#include "common/base/status.h"
#include "common/hash/hex.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "identity/keys.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr size_t kSessionIdBytes = 16;
constexpr std::string_view kWorkerPrincipal = "worker:";

absl::Status NotRun(absl::StatusCode code, std::string what, std::string fix) {
  return common::MakeProblem(code,
                             {.code = "JC1343", .what = std::move(what), .fix = std::move(fix)});
}

absl::Status TooLarge() {
  return absl::InvalidArgumentError(
      StrCat("a message of more than ", kExecMessageBytesMax, " bytes"));
}

}  // namespace

absl::Status ExecSlots::CheckRoom(const std::string& node, const std::string& principal) const {
  size_t all = 0, on_node = 0, of_one = 0, of_one_on_node = 0;
  for (const auto& [where, count] : taken_) {
    const bool is_here = where.first == node;
    const bool is_own = where.second == principal;
    all += count;
    if (is_here) on_node += count;
    if (is_own) of_one += count;
    if (is_here && is_own) of_one_on_node += count;
  }
  std::string what;
  if (of_one_on_node >= kExecSessionsOfOnePerNodeMax) {
    what = StrCat(of_one_on_node, " commands of ", principal, " run on node ", node);
  } else if (of_one >= kExecSessionsOfOneMax) {
    what = StrCat(of_one, " commands of ", principal, " run");
  } else if (on_node >= kExecSessionsPerNodeMax) {
    what = StrCat(on_node, " commands run on node ", node);
  } else if (all >= kExecSessionsMax) {
    what = StrCat(all, " commands run through this coordinator");
  } else {
    return absl::OkStatus();
  }
  return NotRun(absl::StatusCode::kResourceExhausted, StrCat("already ", what),
                "end one of them, or try again later");
}

absl::StatusOr<std::shared_ptr<void>> ExecSlots::Take(const std::shared_ptr<ExecSlots>& slots,
                                                      const std::string& node,
                                                      const std::string& principal) {
  std::lock_guard lock(slots->mutex_);
  RETURN_IF_ERROR(slots->CheckRoom(node, principal));
  ++slots->taken_[{node, principal}];
  return std::shared_ptr<void>(nullptr, [slots, node, principal](void*) {
    std::lock_guard leaving(slots->mutex_);
    const auto own = slots->taken_.find({node, principal});
    if (--own->second == 0) slots->taken_.erase(own);
  });
}

void ExecSession::Begin(std::shared_ptr<ExecClient> client) {
  std::lock_guard lock(mutex_);
  if (!over_) client_ = std::move(client);
}

bool ExecSession::TakeStart() {
  std::lock_guard lock(mutex_);
  return !over_ && !std::exchange(started_, true);
}

void ExecSession::GiveUpStart(const absl::Status& why) {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(started_, true)) return;
  }
  End(why, absl::OkStatus());
}

void ExecSession::Await(std::string node, std::shared_ptr<void> slot) {
  std::lock_guard lock(mutex_);
  node_name_ = std::move(node);
  seat_ = std::move(slot);
}

void ExecSession::Join(std::shared_ptr<ExecNode> node) {
  std::shared_ptr<ExecClient> client;
  {
    std::lock_guard lock(mutex_);
    if (!over_) {
      node_ = node;
      client = client_;
    }
  }
  if (client == nullptr) return node->Close(absl::CancelledError("the person has left"));
  client->ReadNext();
  node->ReadNext();
}

void ExecSession::GiveUpWaiting(const absl::Status& why) {
  {
    std::lock_guard lock(mutex_);
    if (node_ != nullptr) return;
  }
  End(why, absl::OkStatus());
}

void ExecSession::OnInput(v1::ExecInput message) {
  const auto [client, node] = Ends();
  if (client == nullptr || node == nullptr) return;
  if (message.has_start()) {
    const absl::Status twice = absl::InvalidArgumentError("a second start message");
    return End(twice, twice);
  }
  if (message.ByteSizeLong() > kExecMessageBytesMax + 64) return End(TooLarge(), TooLarge());
  node->Write(std::move(message));
  ReadOrPause(client, node, &ExecSession::client_paused_);
}

void ExecSession::OnOutput(v1::ExecOutput message) {
  const auto [client, node] = Ends();
  if (client == nullptr || node == nullptr) return;
  if (message.ByteSizeLong() > kExecMessageBytesMax + 64) return End(TooLarge(), TooLarge());
  const bool is_last = message.has_ended();
  client->Write(std::move(message));
  if (is_last) return End(absl::OkStatus(), absl::OkStatus());
  ReadOrPause(node, client, &ExecSession::node_paused_);
}

std::pair<std::shared_ptr<ExecClient>, std::shared_ptr<ExecNode>> ExecSession::Ends() {
  std::lock_guard lock(mutex_);
  return {client_, node_};
}

// Call it after a message of `reader` was given to `writer`.
template <typename Reader, typename Writer>
void ExecSession::ReadOrPause(const std::shared_ptr<Reader>& reader,
                              const std::shared_ptr<Writer>& writer, bool ExecSession::*paused) {
  {
    // The writer calls this for every message that leaves, after updating its count.
    std::lock_guard lock(mutex_);
    this->*paused = writer->QueuedBytes() >= kExecOutboxBytesMax;
    if (this->*paused) return;
  }
  reader->ReadNext();
}

template <typename Reader, typename Writer>
void ExecSession::Resume(std::shared_ptr<Reader> ExecSession::*reader,
                         std::shared_ptr<Writer> ExecSession::*writer, bool ExecSession::*paused) {
  std::shared_ptr<Reader> resumed;
  {
    std::lock_guard lock(mutex_);
    if (!(this->*paused) || this->*reader == nullptr || this->*writer == nullptr) return;
    if ((this->*writer)->QueuedBytes() >= kExecOutboxBytesMax / 2) return;
    this->*paused = false;
    resumed = this->*reader;
  }
  resumed->ReadNext();
}

void ExecSession::ClientWritten() {
  Resume(&ExecSession::node_, &ExecSession::client_, &ExecSession::node_paused_);
}

void ExecSession::NodeWritten() {
  Resume(&ExecSession::client_, &ExecSession::node_, &ExecSession::client_paused_);
}

void ExecSession::ClientGone() {
  End(absl::OkStatus(), absl::CancelledError("the person has left"));
}

void ExecSession::NodeGone() {
  std::string node;
  {
    std::lock_guard lock(mutex_);
    node = node_name_;
  }
  End(NotRun(absl::StatusCode::kUnavailable,
             StrCat("the worker of node ", node, " left, and the command was killed"),
             StrCat("jobctl nodes show ", node)),
      absl::OkStatus());
}

void ExecSession::End(const absl::Status& client, const absl::Status& node) {
  std::shared_ptr<ExecClient> closed_client;
  std::shared_ptr<ExecNode> closed_node;
  {
    std::lock_guard lock(mutex_);
    over_ = true;
    closed_client.swap(client_);
    closed_node.swap(node_);
  }
  if (closed_client != nullptr) closed_client->Close(client);
  if (closed_node != nullptr) closed_node->Close(node);
}

void ExecBroker::Await(const std::string& node, std::shared_ptr<Sink<v1::ExecOrder>> orders) {
  const Sink<v1::ExecOrder>* const own = orders.get();
  std::shared_ptr<Sink<v1::ExecOrder>> older;
  {
    std::lock_guard lock(mutex_);
    older = std::exchange(nodes_[node], orders);
  }
  if (older != nullptr) older->Close(absl::AbortedError("a newer stream of this node came"));
  orders->Observe({}, [this, node, own] {
    std::lock_guard lock(mutex_);
    const auto found = nodes_.find(node);
    if (found != nodes_.end() && found->second.get() == own) nodes_.erase(found);
  });
}

void ExecBroker::ExpectStart(const std::shared_ptr<ExecSession>& session) {
  later_(kExecStartWithin, [weak = std::weak_ptr<ExecSession>(session)] {
    const std::shared_ptr<ExecSession> late = weak.lock();
    if (late == nullptr) return;
    late->GiveUpStart(
        NotRun(absl::StatusCode::kDeadlineExceeded,
               StrCat("no command arrived within ", kExecStartWithin.count() / 1000, " s"),
               "the first message of the stream names it"));
  });
}

absl::Status ExecBroker::Open(const ExecPlace& place, const v1::ExecStart& start,
                              const Caller& caller, const std::shared_ptr<ExecSession>& session) {
  const absl::StatusOr<std::shared_ptr<void>> slot =
      ExecSlots::Take(slots_, place.node, caller.principal);
  if (!slot.ok()) return slot.status();
  v1::ExecOrder order;
  order.set_session(common::ToHex(identity::RandomBytes(kSessionIdBytes)));
  order.set_job(place.job);
  order.set_attempt(place.attempt);
  order.set_rank(start.rank());
  *order.mutable_command() = start.command();
  if (start.has_terminal()) *order.mutable_terminal() = start.terminal();
  order.set_stdin(start.stdin());
  order.set_by(caller.principal);
  std::shared_ptr<Sink<v1::ExecOrder>> orders;
  {
    std::lock_guard lock(mutex_);
    const auto found = nodes_.find(place.node);
    if (found == nodes_.end()) {
      return NotRun(absl::StatusCode::kUnavailable,
                    StrCat("node ", place.node,
                           " takes no commands: it is not connected, or its worker is older"),
                    StrCat("jobctl nodes show ", place.node));
    }
    orders = found->second;
    awaited_[order.session()] = {place.node, session, *slot};
  }
  session->Await(place.node, *slot);
  later_(kExecServedWithin, [this, id = order.session()] { Expire(id); });
  orders->Write(std::move(order));
  return absl::OkStatus();
}

void ExecBroker::Expire(const std::string& id) {
  Awaited expired;
  {
    std::lock_guard lock(mutex_);
    const auto found = awaited_.find(id);
    if (found == awaited_.end()) return;
    expired = std::move(found->second);
    awaited_.erase(found);
  }
  const std::shared_ptr<ExecSession> session = expired.session.lock();
  if (session == nullptr) return;
  session->GiveUpWaiting(NotRun(absl::StatusCode::kDeadlineExceeded,
                                StrCat("node ", expired.node, " did not start the command within ",
                                       kExecServedWithin.count() / 1000, " s"),
                                StrCat("jobctl nodes show ", expired.node)));
}

absl::StatusOr<std::shared_ptr<ExecSession>> ExecBroker::Serve(const std::string& id,
                                                               const Caller& caller) {
  const absl::Status unknown =
      absl::PermissionDeniedError("there is no such session, or it is served already");
  std::lock_guard lock(mutex_);
  const auto found = awaited_.find(id);
  if (found == awaited_.end()) return unknown;
  if (!CheckServes(caller, found->second.node).ok()) return unknown;
  std::shared_ptr<ExecSession> session = found->second.session.lock();
  awaited_.erase(found);
  if (session == nullptr) return absl::CancelledError("the person has left");
  return session;
}

absl::Status CheckServes(const Caller& caller, const std::string& node) {
  if (!std::string_view(caller.principal).starts_with(kWorkerPrincipal) ||
      caller.principal == StrCat(kWorkerPrincipal, node)) {
    return absl::OkStatus();
  }
  return common::MakeProblem(
      absl::StatusCode::kPermissionDenied,
      {.code = "JC1320",
       .what = StrCat(caller.principal, " may not serve node ", common::Printable(node)),
       .fix = "start the worker with the name that its certificate has"});
}

}  // namespace muster::coordinator
