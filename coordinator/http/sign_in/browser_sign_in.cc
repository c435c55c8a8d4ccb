#include "coordinator/http/sign_in/browser_sign_in.h"

#include <google/protobuf/util/json_util.h>

#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/percent.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/audit/audit.h"
#include "coordinator/calls/daemon.h"
#include "coordinator/http/api/api.h"
#include "coordinator/http/pages/page_files.h"
#include "coordinator/http/server/target.h"
#include "coordinator/identity/directory.h"
#include "identity/certificate.h"
#include "muster/v1/error.pb.h"
#include "muster/v1/identity.pb.h"

namespace muster::coordinator::http {
namespace {

using common::StrCat;
using google::protobuf::util::JsonParseOptions;
using google::protobuf::util::JsonStringToMessage;
using std::chrono::steady_clock;

constexpr std::string_view kEnrollPath = "/enroll/sign-in";
constexpr std::string_view kTicket = "ticket=";
constexpr std::string_view kNotConfirmedYet = "JC1363";
constexpr std::string_view kFormType = "application/x-www-form-urlencoded";

absl::Status NoSuchToken() {
  return common::MakeProblem(
      absl::StatusCode::kUnauthenticated,
      {.code = "JC1313",
       .what = "this is not a token of this coordinator, or it was used up",
       .fix = "paste the link that `jobctl ui` prints, or what `jobctl token create person NAME` "
              "prints"});
}

absl::Status SignInIsOver() {
  return common::MakeProblem(absl::StatusCode::kPermissionDenied,
                             {.code = "JC1364",
                              .what = "the sign-in has ended",
                              .why = "it has expired, was used, or the coordinator has restarted"});
}

// The problem in an answer of the enrolment.
absl::Status ProblemOfAnswer(const std::string& json) {
  const size_t begin = json.find(':');
  const size_t end = json.rfind('}');
  v1::ErrorDetail detail;
  JsonParseOptions options;
  options.ignore_unknown_fields = true;
  if (begin >= end ||
      !JsonStringToMessage(json.substr(begin + 1, end - begin - 1), &detail, options).ok())
    return NoSuchToken();
  return common::MakeProblem(
      absl::StatusCode::kUnauthenticated,
      {.code = detail.code(), .what = detail.what(), .why = detail.why(), .fix = detail.fix()});
}

// The holder of the certificate that a person's token was exchanged for.
absl::StatusOr<Sessions::Holder> HolderOf(const Directory& directory, const std::string& json) {
  v1::Enrolled enrolled;
  if (!JsonStringToMessage(json, &enrolled).ok()) return NoSuchToken();
  ASSIGN_OR_RETURN(const identity::CertificateFacts facts,
                   identity::FactsOfPem(enrolled.certificate_pem()));
  const std::optional<v1::User> user = directory.FindUser(enrolled.name());
  return Sessions::Holder{.principal = StrCat("user:", enrolled.name()),
                          .user_id = user.has_value() ? user->id() : "",
                          .serial = facts.serial,
                          .until_s = facts.not_after_ms / 1'000};
}

// The request that a program would send to the enrolment at `path`.
Request EnrolmentOf(const Request& request, std::string_view path,
                    const google::protobuf::Message& message) {
  Request enrolment{.head = request.head, .body = ""};
  // Clean texts: this cannot fail.
  (void)google::protobuf::util::MessageToJsonString(message, &enrolment.body);
  enrolment.head.method = "POST";
  enrolment.head.target = path;
  enrolment.head.fields = {{"content-type", "application/json"},
                           {"content-length", std::to_string(enrolment.body.size())}};
  return enrolment;
}

std::string LocalOr(std::string_view next) { return IsLocalPath(next) ? std::string(next) : "/"; }

}  // namespace

bool IsSignInForm(const RequestHead& head) {
  return FieldOf(head.fields, "content-type").starts_with(kFormType);
}

void BrowserSignIn::Answer(const Request& request, Respond respond) {
  const absl::StatusOr<Target> form = ParseTarget(StrCat("/sign-in?", request.body));
  if (!form.ok()) return respond(SignedOutPage({.problem = NoSuchToken()}));
  const std::string next(form->Get("next"));
  const std::string pasted(absl::StripAsciiWhitespace(common::ToAbsl(form->Get("token"))));
  if (const size_t link = pasted.find(kTicket); link != std::string::npos) {
    const std::string ticket = pasted.substr(link + kTicket.size());
    return respond(Redeem(ticket.substr(0, ticket.find('&')), request.head.peer, next));
  }
  if (const auto ticket = TicketOfToken(request, pasted); ticket.ok())
    return respond(Redeem(*ticket, request.head.peer, next));
  if (enroll_ == nullptr || pasted.empty()) {
    if (!pasted.empty())
      RecordSignIn(daemon_, kSignInPath, "", request.head.peer, NoSuchToken()).IgnoreError();
    return respond(SignedOutPage({.problem = NoSuchToken(), .next = next}));
  }
  EnrollPerson(request, pasted, next, std::move(respond));
}

// For HTTP-TOKEN: the session is the coordinator's own user's.
absl::StatusOr<std::string> BrowserSignIn::TicketOfToken(const Request& request,
                                                         std::string_view token) {
  const Sessions::Session session =
      sessions_.SessionOf({{"authorization", StrCat("Bearer ", token)}}, 0);
  if (session.proof != Sessions::Proof::kToken) return NoSuchToken();
  ASSIGN_OR_RETURN(const Caller caller, HttpCallerOf(daemon_, session, request.head.peer));
  return sessions_.MakeTicket({.principal = caller.principal, .user_id = "", .serial = ""},
                              steady_clock::now());
}

void BrowserSignIn::EnrollPerson(const Request& request, std::string token, std::string next,
                                 Respond respond) {
  v1::EnrollPersonRequest message;
  message.set_token(std::move(token));
  message.set_csr_pem(identity::MakeRequest(identity::PrivateKey::Generate()));
  Request enrolment = EnrolmentOf(request, kEnrollPath, message);
  const Target target{.path = std::string(kEnrollPath), .query = {}};
  const auto refuse = [this, next](const Response& answer) {
    return SignedOutPage({.problem = ProblemOfAnswer(answer.body), .next = next});
  };
  if (const auto refused = enroll_->Check(enrolment.head, target); refused.has_value())
    return respond(refuse(*refused));
  enroll_->Answer(std::move(enrolment), target,
                  [this, next, refuse, peer = request.head.peer,
                   respond = std::move(respond)](const Response& answer) {
                    if (answer.status != 200) return respond(refuse(answer));
                    const absl::StatusOr<Sessions::Holder> holder =
                        HolderOf(daemon_.access.directory, answer.body);
                    if (!holder.ok())
                      return respond(SignedOutPage({.problem = holder.status(), .next = next}));
                    respond(Redeem(sessions_.MakeTicket(*holder, steady_clock::now()), peer, next));
                  });
}

Response BrowserSignIn::SignedOutPage(SignedOut why) const {
  if (provider() != nullptr) why.provider = provider()->ProviderName();
  return http::SignedOutPage(why);
}

void BrowserSignIn::AnswerAtProvider(const Request& request, const Target& target,
                                     Respond respond) {
  if (provider() == nullptr) return respond(SignedOutPage({.problem = NoProvider(), .next = "/"}));
  if (request.head.method == "POST") return BeginAtProvider(request, std::move(respond));
  LookAtProvider(request, LocalOr(target.Get("next")), std::move(respond));
}

void BrowserSignIn::BeginAtProvider(const Request& request, Respond respond) {
  const absl::StatusOr<Target> form = ParseTarget(StrCat("/sign-in?", request.body));
  const std::string next = LocalOr(form.ok() ? form->Get("next") : "");
  Request begin = EnrolmentOf(request, kDevice, v1::DeviceRequest());
  const Target target{.path = std::string(kDevice), .query = {}};
  const auto refuse = [this, next](const Response& answer) {
    return EndAtProvider(ProblemOfAnswer(answer.body), next);
  };
  if (const auto refused = enroll_->Check(begin.head, target); refused.has_value())
    return respond(refuse(*refused));
  enroll_->Answer(
      std::move(begin), target,
      [this, next, refuse, respond = std::move(respond)](const Response& answer) {
        v1::DeviceResponse device;
        if (answer.status != 200 || !JsonStringToMessage(answer.body, &device).ok())
          return respond(refuse(answer));
        if (const absl::Status bound = provider()->BindToBrowser(device.handle()); !bound.ok())
          return respond(EndAtProvider(bound, next));
        // Leads to a page that can be loaded again.
        Response response{.status = 303, .content_type = "", .body = "", .fields = {}};
        response.fields.emplace_back("Location",
                                     StrCat(kProviderPath, "?next=", common::PercentEncode(next)));
        response.fields.emplace_back("Set-Cookie",
                                     sessions_.ProviderCookie(device.handle(), device.expires_s()));
        respond(std::move(response));
      });
}

void BrowserSignIn::LookAtProvider(const Request& request, const std::string& next,
                                   Respond respond) {
  const std::string handle(sessions_.ProviderHandleOf(request.head.fields));
  const auto waiting = provider()->FindInBrowser(handle);
  if (!waiting.has_value()) {
    // Without a cookie, this browser has begun no sign-in.
    return respond(handle.empty() ? SignedOutPage({.next = next})
                                  : EndAtProvider(SignInIsOver(), next));
  }
  v1::DevicePollRequest poll;
  poll.set_handle(handle);
  poll.set_csr_pem(waiting->csr_pem);
  // Bypasses the pace in Check: this page asks no more often than the provider wants.
  enroll_->Answer(EnrolmentOf(request, kDevicePoll, poll),
                  {.path = std::string(kDevicePoll), .query = {}},
                  [this, handle, next, peer = request.head.peer, respond = std::move(respond)](
                      const Response& answer) { respond(TakeLook(answer, peer, handle, next)); });
}

Response BrowserSignIn::TakeLook(const Response& answer, const Peer& peer,
                                 const std::string& handle, const std::string& next) {
  if (answer.status == 200) {
    const absl::StatusOr<Sessions::Holder> holder = HolderOf(daemon_.access.directory, answer.body);
    if (!holder.ok()) return EndAtProvider(holder.status(), next);
    Response response = Redeem(sessions_.MakeTicket(*holder, steady_clock::now()), peer, next);
    response.fields.emplace_back("Set-Cookie", sessions_.ProviderCookie("", 0));
    return response;
  }
  const absl::Status why = ProblemOfAnswer(answer.body);
  const auto waiting = provider()->FindInBrowser(handle);
  if (!waiting.has_value()) return EndAtProvider(why, next);
  const oidc::DeviceGrant& grant = waiting->grant;
  const bool is_pending = common::CodeOf(why) == kNotConfirmedYet;
  const std::string& complete = grant.verification_uri_complete;
  return ConfirmPage({.provider = provider()->ProviderName(),
                      .code = grant.user_code,
                      .address = grant.verification_uri,
                      .link = complete.empty() ? grant.verification_uri : complete,
                      .problem = is_pending ? "" : common::MessageOf(why),
                      .next = next,
                      .interval_s = grant.interval_s});
}

Response BrowserSignIn::EndAtProvider(const absl::Status& why, const std::string& next) const {
  Response response = SignedOutPage({.problem = why, .next = next});
  response.fields.emplace_back("Set-Cookie", sessions_.ProviderCookie("", 0));
  return response;
}

absl::Status RecordSignIn(Daemon& daemon, std::string_view path, std::string_view who,
                          const Peer& peer, const absl::Status& result) {
  if (!daemon.access.audit.IsKept()) return absl::OkStatus();
  v1::AuditEntry entry = EnrollEntry(common::Printable(path.substr(0, Audit::kTextBytesMax)),
                                     who.empty() ? peer.principal : who, peer, result);
  if (!result.ok()) {
    daemon.access.audit.RecordRefused(std::move(entry));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Audit::Place place, daemon.access.audit.Reserve());
  daemon.access.audit.Record(std::move(entry), std::move(place), nullptr);
  return absl::OkStatus();
}

Response BrowserSignIn::Redeem(std::string_view ticket, const Peer& peer, const std::string& next) {
  std::string principal;
  absl::StatusOr<std::string> cookie = sessions_.Redeem(
      ticket, steady_clock::now(), daemon_.process.clock.Read().wall_ms / 1'000, &principal);
  const absl::Status recorded =
      RecordSignIn(daemon_, kSignInPath, cookie.ok() ? principal : "", peer, cookie.status());
  if (cookie.ok() && !recorded.ok()) cookie = recorded;
  if (!cookie.ok()) return SignedOutPage({.problem = cookie.status(), .next = next});
  Response response = SignedInPage(LocalOr(next));
  response.fields.emplace_back("Set-Cookie", *std::move(cookie));
  return response;
}

}  // namespace muster::coordinator::http
