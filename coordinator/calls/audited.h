// Calls with their entry in the audit. A change first takes a place in the audit's queue; its result is
// recorded when it is answered. A change of only the directory or the coordinator itself is answered once
// its entry is on the disk, and with an error (JC1344) if it cannot get there. Changes of jobs and nodes do
// not wait, because the journal has them and who made them, durably and before any answer. Any thread.
#pragma once

#include <google/protobuf/message.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/calls.h"
#include "coordinator/audit/audit.h"
#include "coordinator/calls/request_limits.h"
#include "coordinator/contexts/call_budget.h"
#include "coordinator/contexts/call_counts.h"
#include "coordinator/contexts/contexts.h"
#include "coordinator/contexts/sink.h"
#include "coordinator/core/state/input.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

// What is known before the call is made.
struct AuditedCall {
  const common::Call& row;
  Way way = Way::kGrpc;
};

bool IsAudited(const AuditedCall& call);
// Whether its answer waits until its entry is on the disk.
bool AnswerWaitsForAudit(const AuditedCall& call);
// The entry without the result. The object is what the request names, with the fields that decide what
// happens to it: "node3 drain=false".
v1::AuditEntry EntryOf(const AuditedCall& call, const Caller& caller,
                       const google::protobuf::Message& request);
// "ok", "2 of 3: [JC1203] …", "[JC1320] …"; plus what was created, such as a job's name.
void SetResult(v1::AuditEntry& entry, const absl::Status& status,
               const google::protobuf::Message* response);

// The caller may not make this call.
void RecordRefusal(Access& access, const AuditedCall& call, const Caller& caller,
                   const google::protobuf::Message& request, const absl::Status& why);

// Receives the result of a call with one answer, of any type: the response is set if the status is OK. Called once.
using AnyAnswer =
    std::function<void(const absl::Status&, std::shared_ptr<google::protobuf::Message> response)>;

// The answer of a call whose response is a T.
template <typename T>
Answer<T> AnswerOf(AnyAnswer answer) {
  return [answer = std::move(answer)](absl::StatusOr<T> response) {
    if (!response.ok()) return answer(response.status(), nullptr);
    answer(absl::OkStatus(), std::make_shared<T>(*std::move(response)));
  };
}

// Calls run(answer), the call itself, before it returns.
void RunAudited(Access& access, const AuditedCall& call, const Caller& caller,
                const google::protobuf::Message& request, AnyAnswer answer,
                const std::function<void(AnyAnswer)>& run);

// The same with the type of the response.
template <typename Response, typename Run>
void RunAuditedAs(Access& access, const AuditedCall& call, const Caller& caller,
                  const google::protobuf::Message& request, Answer<Response> answer, Run run) {
  RunAudited(
      access, call, caller, request,
      [answer = std::move(answer)](const absl::Status& status,
                                   const std::shared_ptr<google::protobuf::Message>& response) {
        if (!status.ok()) return answer(status);
        answer(std::move(static_cast<Response&>(*response)));
      },
      [&](AnyAnswer any) { run(AnswerOf<Response>(std::move(any))); });
}

// Wraps another stream, to follow its messages or to live as long as its producer holds it.
template <typename T>
class PassingSink : public Sink<T> {
 public:
  explicit PassingSink(std::shared_ptr<Sink<T>> sink) : sink_(std::move(sink)) {}

  void Write(T message) override { sink_->Write(std::move(message)); }
  void Close(const absl::Status& status) override { sink_->Close(status); }
  size_t QueuedBytes() const override { return sink_->QueuedBytes(); }
  bool Gone() const override { return sink_->Gone(); }
  void Observe(std::function<void()> drained, std::function<void()> gone) override {
    sink_->Observe(std::move(drained), std::move(gone));
  }

 private:
  const std::shared_ptr<Sink<T>> sink_;
};

// A stream that holds its caller's share of memory.
template <typename T>
class HeldSink final : public PassingSink<T> {
 public:
  HeldSink(std::shared_ptr<Sink<T>> sink, CallBudget::Hold hold)
      : PassingSink<T>(std::move(sink)), hold_(std::move(hold)) {}

 private:
  const CallBudget::Hold hold_;
};

// A stream whose first message, or whose end before one, is the result of a change.
template <typename T>
class AuditedSink final : public PassingSink<T> {
 public:
  AuditedSink(Access& access, v1::AuditEntry entry, Audit::Place place,
              std::shared_ptr<Sink<T>> sink)
      : PassingSink<T>(std::move(sink)),
        access_(access),
        entry_(std::move(entry)),
        place_(std::move(place)) {}

  void Write(T message) override {
    Once(absl::OkStatus(), &message);
    PassingSink<T>::Write(std::move(message));
  }
  void Close(const absl::Status& status) override {
    Once(status, nullptr);
    PassingSink<T>::Close(status);
  }

 private:
  void Once(const absl::Status& status, const google::protobuf::Message* message) {
    if (recorded_.exchange(true)) return;
    SetResult(entry_, status, message);
    access_.audit.Record(std::move(entry_), std::exchange(place_, nullptr), nullptr);
  }

  Access& access_;
  v1::AuditEntry entry_;
  Audit::Place place_;
  std::atomic<bool> recorded_ = false;
};

// A stream of what ranks are doing: nothing changes, but each look stops them for a moment, so the audit
// gets one entry per caller, job and minute.
class LookSink final : public PassingSink<v1::DiagnoseJobUpdate> {
 public:
  LookSink(Jobs& jobs, Access& access, v1::AuditEntry entry,
           std::shared_ptr<Sink<v1::DiagnoseJobUpdate>> sink)
      : PassingSink(std::move(sink)), jobs_(jobs), access_(access), entry_(std::move(entry)) {}

  void Write(v1::DiagnoseJobUpdate update) override;

 private:
  Jobs& jobs_;
  Access& access_;
  v1::AuditEntry entry_;
};

// The stream for the call; null: it was refused and closed, for example because the request is too
// large (request_limits.h) or its caller has its share of streams (call_budget.h).
template <typename Request, typename T>
std::shared_ptr<Sink<T>> Audited(Jobs& jobs, Access& access, Traffic& traffic,
                                 const AuditedCall& call, const Caller& caller,
                                 const Request& request, std::shared_ptr<Sink<T>> sink) {
  if (const absl::Status fits = CheckRequestLimits(request); !fits.ok()) {
    sink->Close(fits);
    return nullptr;
  }
  absl::StatusOr<CallBudget::Hold> hold =
      traffic.budget.Take(caller.principal, BytesOfStream(call.row.cost, request));
  if (!hold.ok()) {
    sink->Close(hold.status());
    return nullptr;
  }
  sink = std::make_shared<HeldSink<T>>(std::move(sink), *std::move(hold));
  if (!access.audit.IsKept()) return sink;
  if constexpr (std::is_same_v<T, v1::DiagnoseJobUpdate>)
    return std::make_shared<LookSink>(jobs, access, EntryOf(call, caller, request),
                                      std::move(sink));
  if (!IsAudited(call)) return sink;
  absl::StatusOr<Audit::Place> place = access.audit.Reserve();
  if (!place.ok()) {
    sink->Close(place.status());
    return nullptr;
  }
  return std::make_shared<AuditedSink<T>>(access, EntryOf(call, caller, request), *std::move(place),
                                          std::move(sink));
}

}  // namespace muster::coordinator
