#include "coordinator/notify/message.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "common/status.h"
#include "common/strings.h"
#include "coordinator/core/state.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr int64_t kPauseMaxMs = 5 * 60'000;

std::string Quoted(const std::string& text) {
  google::protobuf::Value value;
  value.set_string_value(text);
  std::string json;
  return google::protobuf::util::MessageToJsonString(value, &json).ok() ? json : "\"\"";
}

// The same bytes at every try: fields in this order.
std::string BodyOf(const v1::JobRecord& job, const std::string& delivery) {
  return StrCat("{\"version\":1,\"event\":\"end\",\"delivery\":", Quoted(delivery),
                ",\"job\":", job.id(), ",\"name\":", Quoted(job.name()),
                ",\"owner\":", Quoted(job.owner()), ",\"state\":", Quoted(StateName(job.state())),
                ",\"reason\":", Quoted(job.reason()), ",\"exit_code\":", job.exit_code(),
                ",\"attempts\":", job.next_attempt(), ",\"submitted_ms\":", job.submitted_ms(),
                ",\"finished_ms\":", job.finished_ms(), "}");
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

absl::StatusOr<PostRequest> MakePost(const v1::JobRecord& job, const v1::Notify& notify,
                                     const std::string& delivery) {
  PostRequest request;
  ASSIGN_OR_RETURN(request.url, common::ParseHttpUrl(notify.webhook()));
  request.body = BodyOf(job, delivery);
  request.headers = {{"X-Muster-Event", "end"}, {"X-Muster-Delivery", delivery}};
  const auto secret = job.spec().env().find(notify.secret_env());
  if (!notify.secret_env().empty() && secret != job.spec().env().end()) {
    request.headers.emplace_back("X-Hub-Signature-256", SignatureOf(request.body, secret->second));
  }
  return request;
}

std::string SignatureOf(std::string_view body, std::string_view secret) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(body.data()), body.size(), digest, &size);
  return StrCat("sha256=", absl::BytesToHexString({reinterpret_cast<const char*>(digest), size}));
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

}  // namespace muster::coordinator
