#include "coordinator/calls/audited.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/contexts/diagnoses.h"
#include "coordinator/identity/roles.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {
namespace {

using common::Action;
using common::Object;
using common::StrCat;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The fields of requests that name what is changed.
constexpr std::array kNamingFields = {"name",   "job",     "jobs",    "node",   "id",
                                      "serial", "subject", "command", "project"};
// The fields that decide what happens to it: drained or not, which role, which signal.
constexpr std::array kDecidingFields = {"drain",     "disabled",    "role",        "signal",
                                        "priority",  "estimate_ms", "urgent",      "weight",
                                        "notice_ms", "person_jobs", "max_priority"};
// The same, but they decide only if they are there.
constexpr std::array kFlags = {"evict", "any_priority"};
// Numbers by name: of devices, by kind.
constexpr std::array kCountingFields = {"quota", "limit", "person_limit"};
constexpr int kNamedMost = 10;
// Also for callers who may not make the call, whose requests have no other limit.
constexpr size_t kNameBytesMost = 200;
constexpr std::string_view kWays[] = {"grpc", "http"};

void AppendName(std::string& names, const std::string& name) {
  if (name.empty()) return;
  common::StrAppend(&names, names.empty() ? "" : " ", name.substr(0, kNameBytesMost),
                    name.size() > kNameBytesMost ? "…" : "");
}

std::string NamesIn(const Message& request) {
  std::string names;
  const auto* reflection = request.GetReflection();
  for (const char* name : kNamingFields) {
    const FieldDescriptor* field = request.GetDescriptor()->FindFieldByName(name);
    if (field == nullptr || field->type() != FieldDescriptor::TYPE_STRING) continue;
    if (!field->is_repeated()) {
      AppendName(names, reflection->GetString(request, field));
      continue;
    }
    const int count = reflection->FieldSize(request, field);
    for (int i = 0; i < std::min(count, kNamedMost); ++i) {
      AppendName(names, reflection->GetRepeatedString(request, field, i));
    }
    if (count > kNamedMost) AppendName(names, StrCat("and ", count - kNamedMost, " more"));
  }
  return names;
}

// "quota.gpu=64".
void AppendCounts(std::string& decisions, const Message& request, const char* name) {
  const FieldDescriptor* field = request.GetDescriptor()->FindFieldByName(name);
  if (field == nullptr || !field->is_map()) return;
  const auto* reflection = request.GetReflection();
  for (int i = 0; i < std::min(reflection->FieldSize(request, field), kNamedMost); ++i) {
    const Message& entry = reflection->GetRepeatedMessage(request, field, i);
    const auto* of_entry = entry.GetDescriptor();
    const auto* in_entry = entry.GetReflection();
    AppendName(decisions, StrCat(name, ".", in_entry->GetString(entry, of_entry->map_key()), "=",
                                 in_entry->GetUInt32(entry, of_entry->map_value())));
  }
}

// "drain=false", "role=ROLE_ADMIN disabled=true".
std::string DecisionsIn(const Message& request) {
  std::string decisions;
  const auto* reflection = request.GetReflection();
  for (const char* name : kDecidingFields) {
    const FieldDescriptor* field = request.GetDescriptor()->FindFieldByName(name);
    if (field == nullptr || field->is_repeated()) continue;
    // A bool without presence is recorded, even if it is false.
    const bool is_bool = field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL;
    if (!reflection->HasField(request, field) && (!is_bool || field->has_presence())) continue;
    if (is_bool) {
      AppendName(decisions, StrCat(name, reflection->GetBool(request, field) ? "=true" : "=false"));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      AppendName(decisions, StrCat(name, "=", reflection->GetEnum(request, field)->name()));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
      AppendName(decisions, StrCat(name, "=", reflection->GetInt32(request, field)));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_UINT32) {
      AppendName(decisions, StrCat(name, "=", reflection->GetUInt32(request, field)));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_UINT64) {
      AppendName(decisions, StrCat(name, "=", reflection->GetUInt64(request, field)));
    }
  }
  for (const char* name : kFlags) {
    const FieldDescriptor* field = request.GetDescriptor()->FindFieldByName(name);
    if (field != nullptr && reflection->HasField(request, field))
      AppendName(decisions, StrCat(name, "=true"));
  }
  for (const char* name : kCountingFields) AppendCounts(decisions, request, name);
  return decisions;
}

// The job that a response names; empty: none.
std::string MadeIn(const Message& response) {
  if (response.GetDescriptor() == v1::SubmitResponse::descriptor()) {
    return static_cast<const v1::SubmitResponse&>(response).name();
  }
  if (response.GetDescriptor() == v1::JobUpdate::descriptor()) {
    return static_cast<const v1::JobUpdate&>(response).record().name();
  }
  if (response.GetDescriptor() == v1::CreateTokenResponse::descriptor()) {
    return static_cast<const v1::CreateTokenResponse&>(response).token().id();
  }
  return "";
}

std::string BulkText(const v1::BulkResponse& response) {
  int done = 0;
  std::string first;
  for (const v1::BulkResult& result : response.results()) {
    if (result.status_code() == 0) ++done;
    if (result.status_code() != 0 && first.empty()) first = result.message();
  }
  if (first.empty()) return "ok";
  return StrCat(done, " of ", response.results_size(), " done; ", first);
}

}  // namespace

bool IsAudited(const AuditedCall& call) {
  return call.row.action != Action::kRead && call.row.action != Action::kServe;
}

bool AnswerWaitsForAudit(const AuditedCall& call) {
  switch (call.row.object) {
    case Object::kCoordinator:
    case Object::kUser:
    case Object::kToken:
    case Object::kCredential:
    case Object::kProject:
    case Object::kSecret:
    case Object::kAudit:
      return true;
    default:
      return false;
  }
}

v1::AuditEntry EntryOf(const AuditedCall& call, const Caller& caller, const Message& request) {
  v1::AuditEntry entry;
  entry.set_who(caller.principal);
  entry.set_role(std::string(RoleName(caller.role)));
  entry.set_from(caller.from);
  entry.set_way(std::string(kWays[static_cast<size_t>(call.way)]));
  entry.set_what(std::string(call.row.name));
  std::string object = NamesIn(request);
  AppendName(object, DecisionsIn(request));
  entry.set_object(std::move(object));
  return entry;
}

void SetResult(v1::AuditEntry& entry, const absl::Status& status, const Message* response) {
  if (!status.ok()) return entry.set_result(std::string(status.message()));
  entry.set_result("ok");
  if (response == nullptr) return;
  if (response->GetDescriptor() == v1::BulkResponse::descriptor()) {
    entry.set_result(BulkText(static_cast<const v1::BulkResponse&>(*response)));
  } else if (const std::string made = MadeIn(*response); !made.empty()) {
    entry.set_object(entry.object().empty() ? made : StrCat(entry.object(), " ", made));
  }
}

void RunAudited(Access& access, const AuditedCall& call, const Caller& caller,
                const Message& request, AnyAnswer answer,
                const std::function<void(AnyAnswer)>& run) {
  if (!IsAudited(call) || !access.audit.IsKept()) return run(std::move(answer));
  absl::StatusOr<Audit::Place> place = access.audit.Reserve();
  if (!place.ok()) return answer(place.status(), nullptr);
  auto entry = std::make_shared<v1::AuditEntry>(EntryOf(call, caller, request));
  run([&access, entry, place = *std::move(place), waits = AnswerWaitsForAudit(call),
       answer = std::move(answer)](const absl::Status& status, std::shared_ptr<Message> response) {
    SetResult(*entry, status, response.get());
    if (!waits) {
      access.audit.Record(std::move(*entry), place, nullptr);
      return answer(status, std::move(response));
    }
    access.audit.Record(std::move(*entry), place,
                        [answer, status, response](const absl::Status& recorded) {
                          // A failed change changed nothing, and its own error says more.
                          if (status.ok() && !recorded.ok()) return answer(recorded, nullptr);
                          answer(status, response);
                        });
  });
}

void RecordRefusal(Access& access, const AuditedCall& call, const Caller& caller,
                   const Message& request, const absl::Status& why) {
  if (!access.audit.IsKept()) return;
  v1::AuditEntry entry = EntryOf(call, caller, request);
  SetResult(entry, why, nullptr);
  access.audit.RecordRefused(std::move(entry));
}

// The first message names the job.
void LookSink::Write(v1::DiagnoseJobUpdate update) {
  if (update.has_attempt() && jobs_.diagnoses.IsToRecord(entry_.who(), update.attempt().job(),
                                                         std::chrono::steady_clock::now())) {
    entry_.set_object(update.attempt().name());
    entry_.set_result("ok");
    // A look is not a change: it happens even without a place in the audit.
    if (absl::StatusOr<Audit::Place> place = access_.audit.Reserve(); place.ok())
      access_.audit.Record(std::move(entry_), *std::move(place), nullptr);
  }
  PassingSink::Write(std::move(update));
}

}  // namespace muster::coordinator
