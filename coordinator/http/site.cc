#include "coordinator/http/site.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/calls/daemon.h"
#include "coordinator/contexts/lookup.h"
#include "coordinator/http/admission/guard.h"
#include "coordinator/http/api/allowed.h"
#include "coordinator/http/api/api.h"
#include "coordinator/http/api/openapi.h"
#include "coordinator/http/metrics/health.h"
#include "coordinator/http/metrics/telemetry.h"
#include "coordinator/http/pages/page_files.h"
#include "coordinator/http/server/answers.h"
#include "coordinator/net/peer_address.h"

namespace muster::coordinator::http {
namespace {

using common::StrCat;

constexpr std::string_view kScraper = "metrics";  // a client with the token for metrics

bool NeedsNoSession(std::string_view path) {
  return path == "/healthz" || path == "/readyz" || path == kLeaderPath || path == kSignInPath ||
         path == kProviderPath || IsEnroll(path) || IsPublicAsset(path);
}

bool IsApi(std::string_view path) {
  return path.starts_with(kApiRoot) && path != kAllowed && path != StrCat(kApiRoot, "openapi.json");
}

bool IsStream(std::string_view path) { return path == "/events"; }

bool IsKnown(std::string_view path) {
  return NeedsNoSession(path) || IsPage(path) || IsAsset(path) || IsStream(path) ||
         path == "/metrics" || path == kAllowed || path == StrCat(kApiRoot, "openapi.json");
}

bool OnlyReads(const RequestHead& head) { return head.method == "GET" || head.method == "HEAD"; }

// The newest event that the client has seen. Browsers name it when they reconnect; a reloaded page may
// name it in its address.
uint64_t SeenBy(const RequestHead& head, const Target& target) {
  uint64_t seen = 0;
  const std::string_view field = FieldOf(head.fields, "last-event-id");
  const std::string_view named = field.empty() ? target.Get("after") : field;
  return absl::SimpleAtoi(common::ToAbsl(named), &seen) ? seen : EventRing::kFromNow;
}

// A stream that ends with the session that opened it.
class OwnedSource final : public TextSource {
 public:
  OwnedSource(std::shared_ptr<TextSource> source, std::function<bool()> is_session_valid)
      : source_(std::move(source)), is_session_valid_(std::move(is_session_valid)) {}
  std::string Take() override { return source_->Take(); }
  bool IsOver() override { return !is_session_valid_(); }

 private:
  const std::shared_ptr<TextSource> source_;
  const std::function<bool()> is_session_valid_;
};

}  // namespace

std::optional<Response> Site::Check(const RequestHead& head) {
  std::optional<Response> refused = Judge(head);
  if (refused.has_value()) Count(refused->status);
  return refused;
}

std::optional<Response> Site::Judge(const RequestHead& head) {
  const absl::StatusOr<Target> target = ParseTarget(head.target);
  if (!target.ok()) return ErrorResponse(target.status());
  if (std::optional<Response> foreign = RefuseForeign(head, options_.host_names)) return foreign;
  if (std::optional<Response> refused = CheckSession(head, *target); refused.has_value()) {
    return refused;
  }
  return CheckRoute(head, *target);
}

Sessions::Session Site::SessionOf(const RequestHead& head) const {
  return sessions_.SessionOf(head.fields, daemon_.process.clock.Read().wall_ms / 1'000);
}

absl::StatusOr<Caller> Site::CallerOf(const RequestHead& head) const {
  return HttpCallerOf(daemon_, SessionOf(head), head.peer);
}

std::string Site::ShareOf(const RequestHead& head) const {
  const Sessions::Session session = SessionOf(head);
  if (session.proof == Sessions::Proof::kMetricsToken) return std::string(kScraper);
  if (session.proof != Sessions::Proof::kNone) {
    const absl::StatusOr<Caller> caller = HttpCallerOf(daemon_, session, head.peer);
    if (caller.ok()) return caller->principal;
  }
  return NetworkOf(head.peer.principal);
}

std::optional<Response> Site::CheckSession(const RequestHead& head, const Target& target) {
  Sessions::Proof proof = Sessions::Proof::kNone;
  if (!NeedsNoSession(target.path)) {
    proof = SessionOf(head).proof;
    const bool is_enough = proof == Sessions::Proof::kMetricsToken
                               ? target.path == "/metrics"
                               : proof != Sessions::Proof::kNone;
    // A user who has since been removed or disabled has no session.
    const absl::Status why = !is_enough                                ? NotSignedIn("")
                             : proof == Sessions::Proof::kMetricsToken ? absl::OkStatus()
                                                                       : CallerOf(head).status();
    if (!why.ok()) {
      // Without a token, a client only looked in, or its session has expired: not worth an entry.
      if (!FieldOf(head.fields, "authorization").empty())
        RecordSignIn(daemon_, target.path, "", head.peer, why).IgnoreError();
      if (IsPage(target.path)) return sign_in_.SignedOutPage({.next = head.target});
      return ErrorOfSession(why);
    }
  }
  const absl::Status origin =
      CheckOrigin(head, IsStream(target.path), proof == Sessions::Proof::kCookie);
  if (!origin.ok()) return ErrorResponse(origin);
  return std::nullopt;
}

std::optional<Response> Site::CheckRoute(const RequestHead& head, const Target& target) const {
  if (IsEnroll(target.path)) {
    if (options_.enroll != nullptr) return options_.enroll->Check(head, target);
    return Refusal(404, "this coordinator has no cluster to join",
                   "make one: muster-coordinator init");
  }
  if (IsApi(target.path)) return CheckApiCall(head, target);
  if (!IsKnown(target.path)) {
    return Refusal(404, StrCat("there is nothing at ", common::Printable(target.path)),
                   "docs/http.md lists the addresses");
  }
  const bool takes_form = target.path == kSignInPath || target.path == kProviderPath;
  const bool is_form = takes_form && head.method == "POST" && IsSignInForm(head);
  if (OnlyReads(head) || is_form) return std::nullopt;
  return OnlyReadable(target.path);
}

void Site::Handle(Request request, Respond respond) {
  const absl::StatusOr<Target> target = ParseTarget(request.head.target);
  if (!target.ok()) return respond(ErrorResponse(target.status()));
  const std::string& path = target->path;
  Respond counted = [this, respond = std::move(respond)](Response response) {
    Count(response.status);
    respond(std::move(response));
  };
  if (path == "/healthz") return AnswerHealth(daemon_, std::move(counted));
  // Among several, this is served by the leader alone.
  if (path == kLeaderPath) return counted(TextResponse("leads\n"));
  if (path == "/readyz") return AnswerReady(daemon_, std::move(counted));
  if (path == kSignInPath || path == kProviderPath) {
    // A preview that only looks must not use the link up.
    if (request.head.method == "HEAD") return counted(HtmlResponse(200, "Muster", ""));
    if (path == kProviderPath)
      return sign_in_.AnswerAtProvider(request, *target, std::move(counted));
    if (request.head.method == "POST") return sign_in_.Answer(request, std::move(counted));
    return counted(SignIn(*target, request.head.peer));
  }
  if (path == "/metrics" || IsStream(path)) {
    CallPlace taken = TakeCallPlace(desk_.places, ShareOf(request.head));
    if (taken.refused.has_value()) return counted(*std::move(taken.refused));
    counted = [place = std::move(taken.place), counted = std::move(counted)](Response response) {
      counted(std::move(response));
    };
  }
  if (path == "/metrics") {
    OwnFacts own{.http = options_.counts(),
                 .responses = {},
                 .journal_pending_bytes = options_.journal_pending_bytes()};
    {
      std::lock_guard lock(mutex_);
      own.responses = responses_;
    }
    const auto format = ChooseFormat(FieldOf(request.head.fields, "accept"));
    return AnswerMetrics(daemon_, std::move(own), format, std::move(counted));
  }
  if (path == StrCat(kApiRoot, "openapi.json")) {
    return counted(JsonResponse(OpenApiDocument()));
  }
  if (path == kAllowed) {
    const absl::StatusOr<Caller> caller = CallerOf(request.head);
    return counted(caller.ok() ? JsonResponse(AllowedDocument(*caller))
                               : ErrorResponse(caller.status()));
  }
  if (IsPage(path)) return counted(PageDocument(request.head.fields));
  if (IsAsset(path)) return counted(PageAsset(path, request.head.fields));
  if (IsStream(path)) return AnswerEvents(request, *target, std::move(counted));
  if (IsEnroll(path)) {
    return options_.enroll->Answer(std::move(request), *target, std::move(counted));
  }
  const absl::StatusOr<Caller> caller = CallerOf(request.head);
  if (!caller.ok()) return counted(ErrorResponse(caller.status()));
  AnswerApiCall(desk_, *caller, request, *target, std::move(counted));
}

void Site::AnswerEvents(const Request& request, const Target& target, Respond respond) {
  const auto stream = [this, head = request.head](std::shared_ptr<TextSource> source) {
    if (source != nullptr) {
      source = std::make_shared<OwnedSource>(std::move(source),
                                             [this, head] { return CallerOf(head).ok(); });
    }
    return Response{
        .content_type = "text/event-stream", .body = "", .fields = {}, .stream = std::move(source)};
  };
  if (request.head.method != "GET") return respond(stream(nullptr));
  const uint64_t seen = SeenBy(request.head, target);
  const std::string job(target.Get("job"));
  if (job.empty()) return respond(stream(options_.hub->Reader(seen)));
  const absl::StatusOr<Caller> caller = CallerOf(request.head);
  if (!caller.ok()) return respond(ErrorResponse(caller.status()));
  FindJob(daemon_.jobs, daemon_.process, *caller, job,
          [hub = options_.hub, seen, stream,
           respond = std::move(respond)](const absl::StatusOr<FoundJob>& found) {
            if (!found.ok()) return respond(ErrorResponse(found.status()));
            respond(stream(hub->ReaderOfJob(seen, found->record->id())));
          });
}

Response Site::SignIn(const Target& target, const Peer& peer) {
  const std::string_view next = target.Get("next");
  const std::string to = IsLocalPath(next) ? std::string(next) : "/";
  if (target.Get("ticket").empty()) return sign_in_.SignedOutPage({.next = to});
  return sign_in_.Redeem(target.Get("ticket"), peer, to);
}

void Site::Count(unsigned status) {
  std::lock_guard lock(mutex_);
  ++responses_[status];
}

}  // namespace muster::coordinator::http
