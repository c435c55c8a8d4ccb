#include "coordinator/s3/client.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/hash/sha256.h"
#include "common/text/percent.h"
#include "common/text/strings.h"
#include "coordinator/s3/times.h"

namespace muster::coordinator::s3 {
namespace {

using common::StrCat;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A refusal whose Date differs more than this is one of the clock, whatever its text: S3 allows 15 minutes.
constexpr int64_t kClockDiffersMs = 300'000;
constexpr milliseconds kAnswerWithin{60'000};

std::string ShownRequest(const Address& address, const Request& request) {
  return StrCat(request.method, " ", kScheme, address.bucket, "/",
                request.key.empty() ? "" : StrCat(address.prefix, request.key));
}

milliseconds WithinOf(const Request& request) {
  const uint64_t bytes = common::SizeOf(request.body) + request.expected;
  return std::max<milliseconds>(kAnswerWithin, request.silent_for) +
         seconds(bytes / Client::kSlowestBytesPerS);
}

absl::StatusOr<std::string> Sha256Of(const common::ByteSource& bytes) {
  if (const auto* text = std::get_if<std::string_view>(&bytes)) return common::Sha256Hex(*text);
  common::Sha256 hash;
  std::vector<char> buffer(1 << 20);
  for (uint64_t done = 0; done < common::SizeOf(bytes);) {
    ASSIGN_OR_RETURN(const size_t count,
                     common::CopyFrom(bytes, done, buffer.data(), buffer.size()));
    hash.Update({buffer.data(), count});
    done += count;
  }
  return hash.FinishHex();
}

bool IsSuccess(const common::TransferAnswer& answer) {
  return answer.status >= 200 && answer.status < 300 &&
         (answer.body.empty() || !IsErrorAnswer(answer.body));
}

Refusal RefusalOf(const common::TransferAnswer& answer) {
  Refusal refusal{.http_status = answer.status, .error = ReadError(answer.body)};
  // An error that came with the status of a success.
  if (refusal.http_status < 300) refusal.http_status = 500;
  if (refusal.error.region.empty())
    refusal.error.region = answer.Header("x-amz-bucket-region").substr(0, 64);
  if (refusal.error.request_id.empty())
    refusal.error.request_id = answer.Header("x-amz-request-id").substr(0, 100);
  // Known where the bucket was found all the same.
  if (refusal.error.code != "PermanentRedirect" &&
      refusal.error.code != "AuthorizationHeaderMalformed" && refusal.http_status != 301) {
    refusal.error.region.clear();
  }
  return refusal;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Make(ClientOptions options) {
  ASSIGN_OR_RETURN(std::unique_ptr<common::Transfers> transfers,
                   common::Transfers::Open(options.environment("AWS_CA_BUNDLE")));
  return std::unique_ptr<Client>(new Client(std::move(options), std::move(transfers)));
}

Client::Client(ClientOptions options, std::unique_ptr<common::Transfers> transfers)
    : options_(std::move(options)),
      transfers_(std::move(transfers)),
      credentials_(
          [this] {
            return FindCredentials({.environment = options_.environment,
                                    .region = options_.address.region,
                                    .transfers = transfers_.get(),
                                    .stop = options_.stop});
          },
          [this] { return WallMs(); }) {}

int64_t Client::WallMs() const {
  const common::Clock& clock = options_.clock == nullptr ? system_clock_ : *options_.clock;
  return clock.Read().wall_ms + clock_behind_ms_.load();
}

bool Client::CorrectClock(const common::TransferAnswer& answer) {
  const auto theirs = ReadHttpTime(answer.Header("date"));
  if (!theirs) return false;
  const int64_t behind_ms = *theirs - WallMs();
  if (std::abs(behind_ms) < kClockDiffersMs) return false;
  clock_behind_ms_ += behind_ms;
  return true;
}

absl::StatusOr<std::string> Client::PayloadOf(const Request& request) const {
  const bool is_tls = options_.address.endpoint.is_https;
  if (is_tls && options_.address.profile == Profile::kObs) return std::string(kUnsignedPayload);
  if (common::SizeOf(request.body) == 0) return std::string(kEmptyPayload);
  // TLS guards the bytes of files on their way, so they need not be read twice.
  if (is_tls && std::holds_alternative<common::FileRange>(request.body))
    return std::string(kUnsignedPayload);
  return Sha256Of(request.body);
}

absl::StatusOr<common::TransferAnswer> Client::Send(const Request& request,
                                                    const std::string& payload,
                                                    const Credentials& credentials) {
  const Address& address = options_.address;
  const Signing signing{.region = address.region, .credentials = credentials, .wall_ms = WallMs()};
  SignedRequest signed_request{.method = request.method,
                               .path = address.Path(request.key),
                               .query = request.query,
                               .headers = request.headers,
                               .payload = payload};
  Fields& headers = signed_request.headers;
  headers.emplace_back("x-amz-content-sha256", payload);
  headers.emplace_back("x-amz-date", BasicTime(signing.wall_ms));
  if (!credentials.session_token.empty())
    headers.emplace_back("x-amz-security-token", credentials.session_token);
  Fields sent = headers;
  headers.emplace_back("host", address.Host());
  sent.emplace_back("Authorization", Authorization(signing, signed_request));
  const std::string query = CanonicalQuery(request.query);
  return transfers_->Run(
      {.method = request.method,
       .url = StrCat(address.endpoint.is_https ? "https://" : "http://", address.Host(),
                     common::PercentEncode(signed_request.path, /*keeps_slash=*/true),
                     query.empty() ? "" : "?", query),
       .headers = std::move(sent),
       .body = request.body,
       .sink = request.sink,
       .is_sunk = request.is_sunk,
       .answer_max = 4 << 20,
       .silent_for = std::max(options_.silent_for, request.silent_for),
       .within = WithinOf(request)},
      options_.stop);
}

absl::StatusOr<common::TransferAnswer> Client::Try(const Request& request) {
  ASSIGN_OR_RETURN(const std::string payload, PayloadOf(request));
  const std::string shown = ShownRequest(options_.address, request);
  bool may_correct = true;
  bool may_renew = true;
  for (;;) {
    ASSIGN_OR_RETURN(const Credentials credentials, credentials_.Get());
    ASSIGN_OR_RETURN(common::TransferAnswer answer, Send(request, payload, credentials));
    if (IsSuccess(answer)) return answer;
    const Refusal refusal = RefusalOf(answer);
    const bool is_of_clock = IsOfClock(refusal) || refusal.http_status == 403;
    if (is_of_clock && std::exchange(may_correct, false) && CorrectClock(answer)) continue;
    // A HEAD is refused without a text.
    const bool is_of_credentials =
        IsOfCredentials(refusal) || (refusal.http_status == 403 && refusal.error.code.empty());
    if (is_of_credentials && std::exchange(may_renew, false) && credentials_.Renew(credentials))
      continue;
    return StatusOf(options_.address, shown, refusal);
  }
}

absl::StatusOr<common::TransferAnswer> Client::Call(const Request& request, Retry& retry) {
  for (;;) {
    absl::StatusOr<common::TransferAnswer> answer = Try(request);
    if (!absl::IsUnavailable(answer.status()) || !retry.Again()) {
      if (options_.stop != nullptr && options_.stop->load() && !answer.ok())
        return absl::CancelledError("the coordinator is stopping");
      return answer;
    }
  }
}

absl::StatusOr<common::TransferAnswer> Client::Call(const Request& request) {
  Retry retry = NewRetry();
  return Call(request, retry);
}

absl::StatusOr<PresignedUrl> Client::Presign(const Request& request, seconds life) {
  ASSIGN_OR_RETURN(const Credentials credentials, credentials_.Get());
  const int64_t wall_ms = WallMs();
  life = std::min<seconds>(life, Objects::kPresignedMax);
  if (credentials.expires_ms != 0)
    life = std::min(life, seconds((credentials.expires_ms - wall_ms) / 1'000));
  if (life < seconds(1)) {
    return absl::UnavailableError(StrCat("no URL can be made for ",
                                         ShownRequest(options_.address, request),
                                         ": the credentials have expired"));
  }
  const Address& address = options_.address;
  const std::string path = address.Path(request.key);
  // The holder of the URL sends these as they are, or the store refuses it.
  Fields headers = request.headers;
  headers.emplace_back("host", address.Host());
  const std::string query =
      PresignedQuery({.region = address.region, .credentials = credentials, .wall_ms = wall_ms},
                     {.method = request.method,
                      .path = path,
                      .query = request.query,
                      .headers = std::move(headers)},
                     life);
  return PresignedUrl{
      .url = StrCat(address.endpoint.is_https ? "https://" : "http://", address.Host(),
                    common::PercentEncode(path, /*keeps_slash=*/true), "?", query),
      .expires_ms = wall_ms - clock_behind_ms_.load() + life.count() * 1'000};
}

}  // namespace muster::coordinator::s3
