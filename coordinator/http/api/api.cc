#include "coordinator/http/api/api.h"

#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/base/work_pool.h"
#include "coordinator/calls/audited.h"
#include "coordinator/calls/daemon.h"
#include "coordinator/http/api/api_calls.h"
#include "coordinator/http/api/json_body.h"
#include "coordinator/http/api/query.h"
#include "coordinator/http/server/answers.h"
#include "coordinator/identity/admission.h"
#include "coordinator/identity/directory.h"

namespace muster::coordinator::http {
namespace {

using common::Action;
using common::Call;
using common::StrAppend;
using common::StrCat;
using google::protobuf::Message;

const ApiCall* ApiCallOf(const Target& target) {
  return FindApiCall(std::string_view(target.path).substr(kApiRoot.size()));
}

Response UnknownCall(std::string_view path) {
  std::vector<std::string_view> names;
  for (const ApiCall& call : ApiCalls()) names.push_back(call.row->name);
  const std::string_view nearest = common::Nearest(path.substr(kApiRoot.size()), names);
  return Refusal(404, StrCat("there is no call ", common::Printable(path)),
                 nearest.empty() ? std::string("GET /api/v1/openapi.json lists all")
                                 : StrCat("did you mean ", kApiRoot, nearest, "?"));
}

Response WrongMethod(const RequestHead& head, const ApiCall& call) {
  const bool is_read = call.row->action == Action::kRead;
  Response response =
      Refusal(405, StrCat(call.row->name, " cannot be asked with ", common::Printable(head.method)),
              is_read ? "use GET with query parameters, or POST with a JSON body"
                      : "use POST with a JSON body, as it changes something");
  response.fields.emplace_back("Allow", is_read ? "GET, HEAD, POST" : "POST");
  return response;
}

constexpr std::string_view kPeerPrefix = "peer:";

// A peer's address: "10.0.0.7" of "peer:10.0.0.7".
std::string_view AddressOf(std::string_view principal) {
  return principal.starts_with(kPeerPrefix) ? principal.substr(kPeerPrefix.size()) : principal;
}

absl::Status TooManyCalls() {
  return common::MakeProblem(
      absl::StatusCode::kUnavailable,
      {.code = "JC1308",
       .what = StrCat(kCallsInFlightMax, " calls over HTTP are being answered already"),
       .fix = "ask again in a moment; follow events with one stream of /events"});
}

constexpr std::string_view kAskLess =
    "ask again in a moment, and fewer at once; follow events with one stream of /events";

bool AppendJson(const Message& message, std::string& json) {
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text).ok()) return false;
  json += text;
  return true;
}

Response AnswerAsJson(const ApiCall& call, const ApiAnswer& answer) {
  std::string json = call.is_stream ? "{\"messages\":[" : "";
  bool is_first = true;
  for (const auto& message : answer.messages) {
    if (!std::exchange(is_first, false)) json += ",\n";
    // Fails only for a text that is not UTF-8, and none such gets in.
    if (!AppendJson(*message, json)) {
      return ErrorResponse(absl::InternalError(
          StrCat("an answer of ", call.row->name, " cannot be written as JSON")));
    }
  }
  if (call.is_stream) StrAppend(&json, "],\"more\":", answer.more ? "true" : "false", "}");
  json += "\n";
  return JsonResponse(std::move(json));
}

}  // namespace

CallPlace TakeCallPlace(FairPlaces& places, const std::string& caller) {
  FairPlaces::Answer answer = places.Take(caller);
  switch (answer.verdict) {
    case FairShare::Verdict::kRoom:
      return {.place = std::move(answer.place), .refused = std::nullopt};
    case FairShare::Verdict::kFull:
      return {.place = nullptr, .refused = ErrorResponse(TooManyCalls())};
    case FairShare::Verdict::kOverShare:
      break;
  }
  return {.place = nullptr,
          .refused = OverShare(
              StrCat(common::Printable(caller), " has its share of the ", kCallsInFlightMax,
                     " calls that are answered at once over HTTP, which is at most ",
                     places.limits().of_one),
              std::string(kAskLess))};
}

absl::StatusOr<Caller> HttpCallerOf(const Daemon& daemon, const Sessions::Session& session,
                                    const Peer& peer) {
  const bool is_socket = peer.local_address.empty();
  const std::string from = is_socket ? std::string("unix") : std::string(AddressOf(peer.principal));
  if (!session.holder.serial.empty() && daemon.access.directory.IsRevoked(session.holder.serial)) {
    return NotSignedIn(
        StrCat("the certificate that ", session.holder.principal, " signed in with was revoked"));
  }
  std::string principal = session.holder.principal;
  if (principal.empty()) principal = is_socket ? peer.principal : StrCat("uid:", getuid());
  const bool is_plaintext = daemon.access.cluster == nullptr && !daemon.instance.is_private;
  if (is_plaintext && principal.starts_with(kPeerPrefix)) {
    Caller caller = daemon.access.admission.OfPlaintext(StrCat(AddressOf(principal), ":0"));
    caller.from = from;
    return caller;
  }
  ASSIGN_OR_RETURN(Caller caller, daemon.access.admission.OfPrincipal(principal, from));
  if (caller.user_id != session.holder.user_id)
    return NotSignedIn(StrCat("this session was that of an earlier ", caller.principal));
  if (caller.role != v1::ROLE_UNSPECIFIED) return caller;
  return NotSignedIn(StrCat(caller.principal, " may do nothing here"));
}

std::optional<Response> CheckApiCall(const RequestHead& head, const Target& target) {
  const ApiCall* call = ApiCallOf(target);
  if (call == nullptr) return UnknownCall(target.path);
  const bool is_get = head.method == "GET" || head.method == "HEAD";
  const bool is_read = call->row->action == Action::kRead;
  if (is_get ? !is_read : head.method != "POST") return WrongMethod(head, *call);
  if (is_get) return std::nullopt;
  if (!target.query.empty()) {
    return Refusal(400, "a POST takes no query parameters", "put them into the JSON body");
  }
  // Another site's form can be sent here, but not with this type.
  if (!IsJson(FieldOf(head.fields, "content-type"))) {
    return Refusal(415, "the body of a POST is JSON", "send Content-Type: application/json");
  }
  return std::nullopt;
}

void AnswerApiCall(ApiHandler& handler, const Caller& caller, const Request& request,
                   const Target& target, Respond respond) {
  const ApiCall* call = ApiCallOf(target);
  const Call& row = *call->row;
  if (const absl::Status why = handler.daemon.access.admission.Admit(row, caller); !why.ok()) {
    RecordRefusal(handler.daemon.access, {row, Way::kHttp}, caller, *call->request, why);
    return respond(ErrorResponse(why));
  }
  CallPlace taken = TakeCallPlace(handler.places, caller.principal);
  if (taken.refused.has_value()) return respond(*std::move(taken.refused));
  handler.daemon.traffic.calls.Add(call->id, Way::kHttp);
  const bool is_get = request.head.method != "POST";
  // Parsing and writing JSON takes a while, so neither happens on the server's thread or the control loop's.
  handler.pool.Post([&handler, call, place = std::move(taken.place), is_get, query = target.query,
                     body = request.body, caller, respond = std::move(respond)] {
    const std::shared_ptr<Message> message(call->request->New());
    const absl::Status filled =
        is_get ? FillFromQuery(query, *message)
               : FillFromBody(body,
                              {.what = StrCat("a request of ", call->row->name),
                               .described_by = "GET /api/v1/openapi.json"},
                              *message);
    if (!filled.ok()) return respond(ErrorResponse(filled));
    call->run(
        handler.daemon, caller, *message,
        [&handler, call, place, message, respond](const absl::Status& status, ApiAnswer answer) {
          if (!status.ok()) return respond(ErrorResponse(status));
          handler.pool.Post([call, place, respond, answer = std::move(answer)] {
            respond(AnswerAsJson(*call, answer));
          });
        });
  });
}

}  // namespace muster::coordinator::http
