#include "coordinator/http/standby_site.h"

#include <utility>

#include "common/base/loopback.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/http/admission/guard.h"
#include "coordinator/http/metrics/health.h"
#include "coordinator/http/metrics/telemetry.h"
#include "coordinator/http/pages/page_files.h"
#include "coordinator/http/server/answers.h"
#include "coordinator/http/sign_in/enroll.h"

namespace muster::coordinator::http {
namespace {

using common::StrCat;

// A leader is replaced within a few seconds.
constexpr std::string_view kAgainAfterS = "2";

bool IsScrape(std::string_view path) { return path == "/metrics"; }

bool IsOwn(std::string_view path) {
  return path == "/healthz" || path == "/readyz" || path == kLeaderPath || IsScrape(path);
}

// Whether only its own machine reaches that address, and the request came from elsewhere.
bool IsOutOfReach(const HostAndPort& leader, const Peer& peer) {
  return common::IsLoopbackHost(leader.host) && !peer.local_address.empty() &&
         !common::IsLoopbackHost(peer.local_address);
}

// Whether the request was addressed to the leader's address already: a balancer's, or a tunnel's.
bool IsAddressed(std::string_view host_field, const HostAndPort& leader) {
  if (HostName(host_field) != leader.host) return false;
  const std::optional<HostAndPort> asked = ParseHostAndPort(host_field);
  // Browsers leave out the port that their scheme has by default.
  return asked.has_value() ? asked->port == leader.port
                           : leader.port == "80" || leader.port == "443";
}

}  // namespace

StandbySite::StandbySite(Options options)
    : options_(std::move(options)), started_ms_(options_.clock.Read().wall_ms) {}

std::optional<Response> StandbySite::Check(const RequestHead& head) {
  std::optional<Response> answer = Judge(head);
  if (answer.has_value()) Count(answer->status);
  return answer;
}

std::optional<Response> StandbySite::Judge(const RequestHead& head) const {
  const absl::StatusOr<Target> target = ParseTarget(head.target);
  if (!target.ok()) return ErrorResponse(target.status());
  if (std::optional<Response> refused = RefuseForeign(head, options_.host_names)) return refused;
  const absl::Status origin = CheckOrigin(head, target->path == "/events", /*by_cookie=*/false);
  if (!origin.ok()) return ErrorResponse(origin);
  if (IsOwn(target->path)) return Own(head, target->path);
  return Elsewhere(head, target->path);
}

std::optional<Response> StandbySite::Own(const RequestHead& head, std::string_view path) const {
  if (head.method != "GET" && head.method != "HEAD") return OnlyReadable(path);
  if (path == "/healthz") return TextResponse("alive\n");
  if (IsScrape(path)) return std::nullopt;
  if (path == kLeaderPath) {
    Response response = ErrorResponse(FindLeader(head).why);
    response.fields.emplace_back("Retry-After", kAgainAfterS);
    return response;
  }
  const HeadsView view = options_.view();
  if (IsFresh(view)) return TextResponse("ready\nstands by\n");
  return ErrorResponse(StandsBy(
      view.seen_ms == 0 ? std::string("etcd has not answered it yet")
                        : StrCat("etcd has not answered it for ", kViewFreshMs / 1'000, " s"),
      "check that etcd runs and can be reached from there"));
}

Response StandbySite::Elsewhere(const RequestHead& head, std::string_view path) const {
  const Leader leader = FindLeader(head);
  if (IsEnroll(path)) {
    // Of the authority, which all of them share.
    if (path == kAuthorityPath && head.peer.is_encrypted && !options_.authority_pem.empty())
      return PemResponse(options_.authority_pem);
    // Those that join know several addresses and try the next; they follow no redirect, as it proves nothing.
    return ErrorResponse(leader.why);
  }
  const unsigned status = leader.url.empty() ? 503 : 307;
  const std::string to = StrCat(leader.url, head.target);
  const common::Problem problem = common::ProblemOf(leader.why);
  Response response = IsPage(path) ? HtmlResponse(status, "Muster: another coordinator leads",
                                                  StrCat("<p>", HtmlEscape(problem.what), ": ",
                                                         HtmlEscape(problem.why), ".</p>\n"))
                                   : ErrorResponse(leader.why, status);
  if (!leader.url.empty()) {
    response.fields.emplace_back("Location", to);
    return response;
  }
  response.fields.emplace_back("Retry-After", kAgainAfterS);
  if (IsPage(path)) response.fields.emplace_back("Refresh", kAgainAfterS);
  return response;
}

absl::Status StandbySite::StandsBy(std::string why, std::string fix) const {
  return common::MakeProblem(absl::StatusCode::kUnavailable,
                             {.code = "JC1630",
                              .what = StrCat("the coordinator ", options_.name, " stands by"),
                              .why = std::move(why),
                              .fix = std::move(fix)});
}

bool StandbySite::IsFresh(const HeadsView& view) const {
  return view.seen_ms + kViewFreshMs > options_.clock.Read().mono_ms;
}

StandbySite::Leader StandbySite::FindLeader(const RequestHead& head) const {
  const HeadsView view = options_.view();
  const std::string& name = view.leader.name();
  // What names this one is from before, or from a moment ahead.
  if (name.empty() || name == options_.name || !IsFresh(view))
    return {StandsBy("none leads at the moment", "ask again in a few seconds"), ""};
  // From the cluster's etcd, and checked all the same: a browser is sent nowhere but to a host and a port.
  const std::optional<HostAndPort> at = ParseHostAndPort(view.leader.http());
  if (!at.has_value()) {
    return {
        StandsBy(StrCat(name, " leads, and serves no HTTP that others can reach"),
                 StrCat("start ", name, " with --http ADDR:PORT, or --advertise-http HOST:PORT")),
        ""};
  }
  const std::string url = StrCat(options_.is_encrypted ? "https://" : "http://", TextOf(*at));
  if (IsOutOfReach(*at, head.peer)) {
    return {StandsBy(StrCat(name, " leads, at ", url, ", which only its own machine can reach"),
                     StrCat("start ", name, " with --advertise-http HOST:PORT")),
            ""};
  }
  if (IsAddressed(FieldOf(head.fields, "host"), *at)) {
    return {StandsBy(StrCat(name, " leads, and what answers at ", url, " sent the request here"),
                     "ask again in a few seconds"),
            ""};
  }
  return {StandsBy(StrCat(name, " leads, at ", url), StrCat("ask ", url)), url};
}

void StandbySite::Handle(Request request, Respond respond) {
  pool_.Post([this, head = std::move(request.head), respond = std::move(respond)] {
    Response response = Metrics(head);
    Count(response.status);
    respond(std::move(response));
  });
}

absl::Status StandbySite::CheckScraper(const RequestHead& head) {
  const absl::Status none = NotSignedIn("/metrics of a coordinator that stands by needs a token");
  if (FieldOf(head.fields, "authorization").empty()) return none;
  if (sessions_ == nullptr) {
    absl::StatusOr<Sessions::Secrets> secrets = options_.secrets();
    if (!secrets.ok()) {
      return StandsBy(StrCat("the scraper's token cannot be read: ", secrets.status().message()),
                      "ask again once a coordinator has led");
    }
    sessions_ = std::make_unique<Sessions>(*std::move(secrets), "", options_.is_encrypted);
  }
  // A cookie proves who it was: whether that user still exists is known to the leader.
  switch (sessions_->SessionOf(head.fields, options_.clock.Read().wall_ms / 1'000).proof) {
    case Sessions::Proof::kToken:
    case Sessions::Proof::kMetricsToken:
      return absl::OkStatus();
    default:
      return none;
  }
}

Response StandbySite::Metrics(const RequestHead& head) {
  if (const absl::Status why = CheckScraper(head); !why.ok()) return ErrorOfSession(why);
  StandbyFacts facts{.head = FactsOfHead(options_.view(), options_.name, /*leads=*/false),
                     .http = options_.counts(),
                     .responses = {},
                     .started_ms = started_ms_};
  {
    std::lock_guard lock(mutex_);
    facts.responses = responses_;
  }
  return StandbyMetrics(facts, ChooseFormat(FieldOf(head.fields, "accept")));
}

void StandbySite::Count(unsigned status) {
  std::lock_guard lock(mutex_);
  ++responses_[status];
}

}  // namespace muster::coordinator::http
