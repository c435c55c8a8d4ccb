#include "coordinator/http/sign_in/device_sign_in.h"

#include <google/protobuf/util/json_util.h>

#include <utility>

#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/url.h"
#include "coordinator/calls/daemon.h"
#include "coordinator/http/api/json_body.h"
#include "coordinator/http/server/answers.h"
#include "coordinator/net/http_call.h"
#include "coordinator/net/peer_address.h"
#include "identity/certificate.h"

namespace muster::coordinator::http {
namespace {

using common::StrCat;
using Kind = oidc::TokenAnswer::Kind;

absl::Status NotYet() {
  return common::MakeProblem(absl::StatusCode::kUnavailable,
                             {.code = "JC1363", .what = "the sign-in is not confirmed yet"});
}

absl::Status IsOver(std::string why) {
  return common::MakeProblem(
      absl::StatusCode::kPermissionDenied,
      {.code = "JC1364", .what = "the sign-in has ended", .why = std::move(why)});
}

absl::Status TooBusy() {
  return common::MakeProblem(
      absl::StatusCode::kResourceExhausted,
      {.code = "JC1356", .what = "too many people sign in at the identity provider at once"});
}

Response JsonOfDevice(const v1::DeviceResponse& device) {
  std::string json;
  // Checked texts: this cannot fail.
  if (!google::protobuf::util::MessageToJsonString(device, &json).ok()) json = "{}";
  return JsonResponse(json + "\n");
}

}  // namespace

absl::Status NoProvider() {
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1361", .what = "this cluster has no identity provider to sign in at"});
}

DeviceSignIn::DeviceSignIn(Daemon& daemon, Enrolment& enrolment, oidc::Client client, Settle settle)
    : daemon_(daemon),
      enrolment_(enrolment),
      settle_(std::move(settle)),
      provider_(std::move(client),
                [this](const common::HttpCall& call) { return CallOutside(call, is_stopping_); }),
      pool_(kThreads) {}

void DeviceSignIn::Stop() {
  is_stopping_ = true;
  pool_.Stop();
}

bool DeviceSignIn::Post(const Peer& peer, std::function<void()> work) {
  FairPlaces::Answer taken = waiting_.Take(NetworkOf(peer.principal));
  if (taken.place == nullptr) return false;
  pool_.Post([place = std::move(taken.place), work = std::move(work)] { work(); });
  return true;
}

std::string DeviceSignIn::ProviderName() const {
  const absl::StatusOr<common::HttpUrl> url = common::ParseHttpUrl(provider_.issuer());
  return url.ok() ? url->Authority() : provider_.issuer();
}

absl::Status DeviceSignIn::BindToBrowser(const std::string& handle) {
  const std::string csr_pem = identity::MakeRequest(identity::PrivateKey::Generate());
  ASSIGN_OR_RETURN(const std::string key_sha256, Enrolment::KeyHashOf(csr_pem));
  pending_.Bind(handle, csr_pem, key_sha256);
  return absl::OkStatus();
}

std::optional<oidc::PendingSignIns::InBrowser> DeviceSignIn::FindInBrowser(
    const std::string& handle) {
  return pending_.FindInBrowser(handle, Now().mono_ms);
}

oidc::Provider::Times DeviceSignIn::Now() const {
  const common::Now now = daemon_.process.clock.Read();
  return {.mono_ms = now.mono_ms, .wall_ms = now.wall_ms};
}

absl::StatusOr<v1::DeviceResponse> DeviceSignIn::BeginFor(const std::string& peer) {
  ASSIGN_OR_RETURN(const std::string handle, pending_.Reserve(peer, Now().mono_ms));
  const absl::StatusOr<oidc::DeviceGrant> grant = provider_.Begin(Now());
  if (!grant.ok()) {
    pending_.Drop(handle);
    return grant.status();
  }
  pending_.Fill(handle, *grant, Now().mono_ms);
  v1::DeviceResponse device;
  device.set_handle(handle);
  device.set_user_code(grant->user_code);
  device.set_verification_uri(grant->verification_uri);
  device.set_verification_uri_complete(grant->verification_uri_complete);
  device.set_interval_s(static_cast<uint32_t>(grant->interval_s));
  device.set_expires_s(static_cast<uint32_t>(grant->expires_s));
  return device;
}

void DeviceSignIn::Begin(Request request, Respond respond) {
  const int64_t since_ms = Now().mono_ms;
  const bool is_taken =
      Post(request.head.peer, [this, since_ms, respond, peer = request.head.peer] {
        if (Now().mono_ms - since_ms > kWaitedMostMs) return respond(ErrorResponse(TooBusy()));
        const absl::StatusOr<v1::DeviceResponse> device = BeginFor(NetworkOf(peer.principal));
        if (!device.ok()) return Refuse(device.status(), {kDevice, peer, respond});
        respond(JsonOfDevice(*device));
      });
  if (!is_taken) respond(ErrorResponse(TooBusy()));
}

void DeviceSignIn::Poll(Request request, Respond respond) {
  const int64_t since_ms = Now().mono_ms;
  const Peer peer = request.head.peer;
  const bool is_taken = Post(peer, [this, since_ms, respond, request = std::move(request)] {
    if (Now().mono_ms - since_ms > kWaitedMostMs) return respond(ErrorResponse(NotYet()));
    PollFor(request, respond);
  });
  if (!is_taken) respond(ErrorResponse(NotYet()));
}

void DeviceSignIn::PollFor(const Request& request, const Respond& respond) {
  using Verdict = oidc::PendingSignIns::Verdict;
  const Asked asked{.path = kDevicePoll, .peer = request.head.peer, .respond = respond};
  v1::DevicePollRequest poll;
  const absl::Status filled = FillFromBody(
      request.body,
      {.what = StrCat("what ", kDevicePoll, " takes"), .described_by = "docs/security.md"}, poll);
  if (!filled.ok()) return respond(ErrorResponse(filled));
  const absl::StatusOr<std::string> key = Enrolment::KeyHashOf(poll.csr_pem());
  if (!key.ok()) return Refuse(key.status(), asked);
  const oidc::PendingSignIns::Taken taken =
      pending_.Take({.handle = poll.handle(), .key_sha256 = *key, .now_ms = Now().mono_ms});
  switch (taken.verdict) {
    case Verdict::kAsk:
      return Conclude(poll, provider_.Ask(taken.device_code, Now()), asked);
    case Verdict::kNotYet:
      return respond(ErrorResponse(NotYet()));
    case Verdict::kUnknown:
      return Refuse(IsOver("it has expired, was used, or the coordinator has restarted"), asked);
    case Verdict::kOtherKey:
      return Refuse(IsOver("it was begun for another key"), asked);
  }
}

void DeviceSignIn::Conclude(const v1::DevicePollRequest& poll,
                            const absl::StatusOr<oidc::Provider::Answer>& got, const Asked& asked) {
  const bool goes_on = got.ok() ? got->kind == Kind::kPending || got->kind == Kind::kSlowDown
                                : absl::IsUnavailable(got.status());
  if (goes_on) {
    pending_.Later(poll.handle(), got.ok() && got->kind == Kind::kSlowDown, Now().mono_ms);
    if (got.ok()) return asked.respond(ErrorResponse(NotYet()));
    return Refuse(got.status(), asked);
  }
  // Before the answer: a handle gives one certificate.
  pending_.Drop(poll.handle());
  if (!got.ok()) return Refuse(got.status(), asked);
  if (got->kind == Kind::kDenied)
    return Refuse(IsOver("it was denied at the identity provider"), asked);
  if (got->kind == Kind::kExpired) return Refuse(IsOver("it was not confirmed in time"), asked);
  settle_(
      [&] {
        return enrolment_.SignInAs(
            {.issuer = provider_.issuer(), .subject = got->subject, .csr_pem = poll.csr_pem()},
            {.now_ms = Now().wall_ms});
      },
      asked.path, asked.peer, asked.respond);
}

void DeviceSignIn::Refuse(const absl::Status& why, const Asked& asked) const {
  if (common::CodeOf(why) == "JC1362") daemon_.traffic.refusals.Warn(common::ProblemOf(why));
  settle_([&] { return Enrolment::Outcome{.answer = why, .who = "oidc", .object = ""}; },
          asked.path, asked.peer, asked.respond);
}

}  // namespace muster::coordinator::http
