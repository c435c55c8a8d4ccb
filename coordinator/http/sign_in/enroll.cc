#include "coordinator/http/sign_in/enroll.h"

#include <google/protobuf/util/json_util.h>

#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/audit/audit.h"
#include "coordinator/calls/daemon.h"
#include "coordinator/http/api/json_body.h"
#include "coordinator/http/server/answers.h"

namespace muster::coordinator::http {
namespace {

using common::StrCat;

constexpr std::string_view kJoin = "/enroll/join";
constexpr std::string_view kSignIn = "/enroll/sign-in";
constexpr std::string_view kRenew = "/enroll/renew";
constexpr std::string_view kCoordinator = "/enroll/coordinator";

std::optional<Response> CheckMethod(const RequestHead& head, std::string_view path) {
  const bool is_read = path == kAuthorityPath;
  if (is_read ? head.method == "GET" || head.method == "HEAD" : head.method == "POST")
    return std::nullopt;
  Response response =
      Refusal(405, StrCat(path, " cannot be asked with ", common::Printable(head.method)),
              is_read ? "use GET" : "use POST with a JSON body");
  response.fields.emplace_back("Allow", is_read ? "GET, HEAD" : "POST");
  return response;
}

Response TooMany() {
  Response response = ErrorResponse(
      common::MakeProblem(
          absl::StatusCode::kResourceExhausted,
          {.code = "JC1356", .what = "too many nodes and people join, sign in or renew at once"}),
      429);
  response.fields.emplace_back("Retry-After", "1");
  return response;
}

Response AnswerWith(const google::protobuf::Message& enrolled) {
  std::string json;
  // PEM texts, hex digits and checked names: this cannot fail.
  if (!google::protobuf::util::MessageToJsonString(enrolled, &json).ok()) json = "{}";
  return JsonResponse(json + "\n");
}

}  // namespace

template <typename Decision>
void EnrollHandler::Settle(const Decision& decide, std::string_view path, const Peer& peer,
                           Respond respond) const {
  // First, because what cannot be recorded must not happen.
  absl::StatusOr<Audit::Place> place = daemon_.access.audit.Reserve();
  if (!place.ok()) return respond(ErrorResponse(place.status()));
  const auto outcome = decide();
  const absl::Status& status = outcome.answer.status();
  v1::AuditEntry entry = EnrollEntry(path, outcome.who, peer, status);
  entry.set_object(outcome.object);
  if (!status.ok()) {
    daemon_.access.audit.RecordRefused(std::move(entry));
    return respond(ErrorResponse(status));
  }
  daemon_.access.audit.Record(
      std::move(entry), *std::move(place),
      [respond = std::move(respond),
       response = AnswerWith(*outcome.answer)](const absl::Status& recorded) {
        respond(recorded.ok() ? response : ErrorResponse(recorded));
      });
}

bool IsEnroll(std::string_view path) {
  return path == kAuthorityPath || path == kJoin || path == kSignIn || path == kRenew ||
         path == kCoordinator || path == kDevice || path == kDevicePoll;
}

EnrollHandler::EnrollHandler(Daemon& daemon, Enrolment& enrolment,
                             std::optional<oidc::Client> client)
    : daemon_(daemon), enrolment_(enrolment) {
  if (!client.has_value()) return;
  device_ = std::make_unique<DeviceSignIn>(
      daemon, enrolment, *std::move(client),
      [this](const std::function<Enrolment::Outcome()>& decide, std::string_view path,
             const Peer& peer,
             Respond respond) { Settle(decide, path, peer, std::move(respond)); });
}

void EnrollHandler::Stop() {
  if (device_ != nullptr) device_->Stop();
}

std::optional<Response> EnrollHandler::Check(const RequestHead& head, const Target& target) {
  if (!head.peer.is_encrypted) {
    return Refusal(403, "tokens and certificates are only taken over TLS",
                   "ask the coordinator's https:// address");
  }
  if (auto refused = CheckMethod(head, target.path); refused.has_value()) return refused;
  if (target.path == kAuthorityPath) return std::nullopt;
  if (!IsJson(FieldOf(head.fields, "content-type"))) {
    return Refusal(415, "the body of a POST is JSON", "send Content-Type: application/json");
  }
  uint64_t size = 0;
  if (!absl::SimpleAtoi(common::ToAbsl(FieldOf(head.fields, "content-length")), &size)) {
    return Refusal(411, "the body of the request has no Content-Length", "send one");
  }
  if (size > kEnrollBodyMax) {
    return Refusal(
        413, StrCat("the body of the request has ", size, " bytes, more than ", kEnrollBodyMax),
        "send less");
  }
  if (!pace_.Allows(head.peer.principal, std::chrono::steady_clock::now())) return TooMany();
  return std::nullopt;
}

void EnrollHandler::Answer(Request request, const Target& target, Respond respond) {
  const std::string& path = target.path;
  if (path == kAuthorityPath) {
    return respond(PemResponse(enrolment_.authority_pem()));
  }
  if (path == kDevice || path == kDevicePoll) {
    if (device_ == nullptr) return respond(ErrorResponse(NoProvider()));
    return path == kDevice ? device_->Begin(std::move(request), std::move(respond))
                           : device_->Poll(std::move(request), std::move(respond));
  }
  if (path == kJoin) return Join(std::move(request), path, std::move(respond));
  if (path == kSignIn) {
    return Decide(&Enrolment::SignIn, std::move(request), path, std::move(respond));
  }
  if (path == kCoordinator) {
    return Decide(&Enrolment::ShareKeys, std::move(request), path, std::move(respond));
  }
  Decide(&Enrolment::Renew, std::move(request), path, std::move(respond));
}

template <typename Message, typename Result>
void EnrollHandler::Decide(Rule<Message, Result> rule, Request request, std::string path,
                           Respond respond) {
  daemon_.process.pool.Post([this, rule, request = std::move(request), path = std::move(path),
                             respond = std::move(respond)] {
    Message message;
    const absl::Status filled = FillFromBody(
        request.body, {.what = StrCat("what ", path, " takes"), .described_by = "docs/security.md"},
        message);
    if (!filled.ok()) return respond(ErrorResponse(filled));
    const Enrolment::Asked asked{.now_ms = daemon_.process.clock.Read().wall_ms};
    Settle([&] { return (enrolment_.*rule)(message, asked); }, path, request.head.peer, respond);
  });
}

// Only the control loop can tell whether the cluster knows a node of that name.
void EnrollHandler::Join(Request request, std::string path, Respond respond) {
  daemon_.process.pool.Post([this, request = std::move(request), path = std::move(path),
                             respond = std::move(respond)]() mutable {
    auto message = std::make_shared<v1::JoinRequest>();
    const absl::Status filled = FillFromBody(
        request.body, {.what = "what /enroll/join takes", .described_by = "docs/security.md"},
        *message);
    if (!filled.ok()) return respond(ErrorResponse(filled));
    daemon_.jobs.loop.Ask(
        [this, message, path, peer = request.head.peer,
         respond](const LoopView& view) -> std::function<void()> {
          const Enrolment::Asked asked{.now_ms = daemon_.process.clock.Read().wall_ms,
                                       .is_known = view.state.nodes.contains(message->node())};
          daemon_.process.pool.Post([this, message, path, peer, respond, asked] {
            Settle([&] { return enrolment_.Join(*message, asked); }, path, peer, respond);
          });
          return nullptr;
        },
        [respond](const absl::Status& why) { respond(ErrorResponse(why)); });
  });
}

v1::AuditEntry EnrollEntry(std::string_view path, std::string_view who, const Peer& peer,
                           const absl::Status& result) {
  v1::AuditEntry entry;
  entry.set_who(std::string(who));
  entry.set_from(peer.principal);
  entry.set_way("http");
  entry.set_what(std::string(path));
  entry.set_result(result.ok() ? "ok" : common::Readable(common::ProblemOf(result)));
  return entry;
}

}  // namespace muster::coordinator::http
