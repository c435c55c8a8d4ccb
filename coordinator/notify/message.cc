#include "coordinator/notify/message.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/hash/hmac.h"
#include "common/text/json_text.h"
#include "common/text/strings.h"
#include "coordinator/core/state/state.h"

namespace muster::coordinator {
namespace {

using common::JsonObject;
using common::StrCat;

constexpr int64_t kPauseMaxMs = 5 * 60'000;

// The beginning of both kinds of messages. The same bytes at every try: members in this order.
JsonObject HeadOf(const v1::JobRecord& job, std::string_view event, const std::string& name) {
  JsonObject head(JsonObject::Style::kCompact);
  head.Add("version", 1).Add("event", event).Add("delivery", name);
  return std::move(head.Add("job", job.id()).Add("name", job.name()).Add("owner", job.owner()));
}

std::string EndBody(const v1::JobRecord& job, const std::string& name) {
  return HeadOf(job, "end", name)
      .Add("state", StateName(job.state()))
      .Add("reason", job.reason())
      .Add("exit_code", job.exit_code())
      .Add("attempts", job.next_attempt())
      .Add("submitted_ms", job.submitted_ms())
      .Add("finished_ms", job.finished_ms())
      .Text();
}

std::string SeverityName(v1::FindingSeverity severity) {
  switch (severity) {
    case v1::FINDING_SEVERITY_ERROR:
      return "error";
    case v1::FINDING_SEVERITY_WARNING:
      return "warning";
    default:
      return "note";
  }
}

// Contains nothing of the job's state, which may change between two tries.
std::string FindingBody(const v1::JobRecord& job, const v1::Finding& finding,
                        const std::string& name) {
  return HeadOf(job, "finding", name)
      .Add("attempt", finding.attempt())
      .Add("finding", finding.code())
      .Add("severity", SeverityName(finding.severity()))
      .Add("reason", finding.sentence())
      .Add("cause", finding.cause())
      .Add("fix", finding.fix())
      .Text();
}

// Null: the job has no such finding.
const v1::Finding* FindNoticed(const v1::JobRecord& job, const Delivery& delivery) {
  for (const v1::Finding& finding : job.noticed()) {
    if (finding.code() == delivery.finding && finding.attempt() == delivery.attempt)
      return &finding;
  }
  return nullptr;
}

absl::StatusOr<std::string> BodyOf(const v1::JobRecord& job, const Delivery& delivery,
                                   const std::string& name) {
  if (delivery.IsEnd()) return EndBody(job, name);
  const v1::Finding* finding = FindNoticed(job, delivery);
  if (finding == nullptr) {
    return absl::NotFoundError(StrCat("job ", job.id(), " has no finding ", delivery.finding));
  }
  return FindingBody(job, *finding, name);
}

// The tree of a job that brought its code is gone by then.
std::string NotifyWorkdir(const v1::JobSpec& spec) {
  return spec.has_code() ? "/" : spec.workdir();
}

}  // namespace

bool Wants(const v1::Notify& notify, v1::JobState state) {
  if (!IsFinal(state)) return false;
  if (notify.on().empty()) return true;
  return std::any_of(notify.on().begin(), notify.on().end(), [&](int on) {
    return on == v1::NOTIFY_ON_END ||
           (on == v1::NOTIFY_ON_FAILURE && state == v1::JOB_STATE_FAILED);
  });
}

v1::JobRecord FactsToTell(const v1::JobRecord& job) {
  v1::JobRecord facts;
  facts.set_id(job.id());
  facts.set_name(job.name());
  facts.set_owner(job.owner());
  facts.set_state(job.state());
  facts.set_reason(job.reason());
  facts.set_exit_code(job.exit_code());
  facts.set_next_attempt(job.next_attempt());
  facts.set_submitted_ms(job.submitted_ms());
  facts.set_finished_ms(job.finished_ms());
  facts.mutable_spec()->set_workdir(NotifyWorkdir(job.spec()));
  *facts.mutable_spec()->mutable_env() = job.spec().env();
  facts.mutable_spec()->set_sealed_env(job.spec().sealed_env());
  *facts.mutable_spec()->mutable_notify() = job.spec().notify();
  *facts.mutable_noticed() = job.noticed();
  if (job.attempts().empty()) return facts;
  v1::Attempt& newest = *facts.add_attempts();
  newest.set_number(job.attempts().rbegin()->number());
  for (const v1::NodePart& part : job.attempts().rbegin()->parts())
    newest.add_parts()->set_node(part.node());
  return facts;
}

absl::StatusOr<common::HttpCall> MakePost(const v1::JobRecord& job, const Delivery& delivery,
                                          const std::string& name) {
  const v1::Notify& notify = job.spec().notify(static_cast<int>(delivery.entry));
  common::HttpCall request;
  ASSIGN_OR_RETURN(request.url, common::ParseHttpUrl(notify.webhook()));
  ASSIGN_OR_RETURN(request.body, BodyOf(job, delivery, name));
  request.headers = {{"X-Muster-Event", delivery.IsEnd() ? "end" : "finding"},
                     {"X-Muster-Delivery", name}};
  const auto secret = job.spec().env().find(notify.secret_env());
  if (!notify.secret_env().empty() && secret != job.spec().env().end()) {
    request.headers.emplace_back("X-Hub-Signature-256", SignatureOf(request.body, secret->second));
  }
  return request;
}

absl::StatusOr<v1::RunNotify> MakeRun(const v1::JobRecord& job, const Delivery& delivery,
                                      const std::string& name) {
  v1::RunNotify run;
  ASSIGN_OR_RETURN(const std::string body, BodyOf(job, delivery, name));
  run.set_job(job.id());
  if (!job.attempts().empty()) run.set_attempt(job.attempts().rbegin()->number());
  run.set_delivery(name);
  run.set_owner(job.owner());
  run.set_account(job.account());
  *run.mutable_command() = job.spec().notify(static_cast<int>(delivery.entry)).command();
  run.set_workdir(NotifyWorkdir(job.spec()));
  *run.mutable_env() = job.spec().env();
  auto& told = *run.mutable_told();
  told["MUSTER_JOB"] = StrCat(job.id());
  told["MUSTER_NAME"] = job.name();
  told["MUSTER_DELIVERY"] = name;
  told["MUSTER_MESSAGE"] = body;
  told["MUSTER_STATE"] = StateName(job.state());
  if (delivery.IsEnd()) {
    told["MUSTER_EVENT"] = "end";
    told["MUSTER_REASON"] = job.reason();
    told["MUSTER_EXIT_CODE"] = StrCat(job.exit_code());
  } else {
    const v1::Finding& finding = *FindNoticed(job, delivery);
    told["MUSTER_EVENT"] = "finding";
    told["MUSTER_REASON"] = finding.sentence();
    told["MUSTER_FINDING"] = finding.code();
    told["MUSTER_FIX"] = finding.fix();
  }
  return run;
}

std::vector<std::string> NodesToRunOn(const v1::JobRecord& job) {
  std::vector<std::string> nodes;
  if (job.attempts().empty()) return nodes;
  for (const v1::NodePart& part : job.attempts().rbegin()->parts()) nodes.push_back(part.node());
  return nodes;
}

std::string SignatureOf(std::string_view body, std::string_view secret) {
  return StrCat("sha256=", common::HmacSha256Hex(secret, body));
}

int64_t PauseMs(int tries, int64_t first_ms) {
  int64_t pause = first_ms;
  for (int i = 1; i < tries && pause < kPauseMaxMs; ++i) pause *= 2;
  return std::min(pause, kPauseMaxMs);
}

bool IsDelivered(int http_status) { return http_status >= 200 && http_status < 300; }

bool IsRefused(int http_status) {
  const bool later = http_status == 408 || http_status == 425 || http_status == 429;
  return http_status >= 300 && http_status < 500 && !later;
}

bool IsCommandGivenUp(int64_t waited_ms, int tries) {
  return waited_ms > kCommandGivenUpAfterMs && tries >= kCommandTriesMin;
}

}  // namespace muster::coordinator
