// The provider: our requests to it, and a cache of its metadata and keys. Discovered at the first use,
// so one that is down never delays the coordinator's start. Blocks, each call for at most as long as
// HttpCall allows; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/http/client.h"
#include "coordinator/oidc/answers.h"
#include "coordinator/oidc/client.h"
#include "coordinator/oidc/keys.h"

namespace muster::coordinator::oidc {

class Provider {
 public:
  // The discovered metadata and the keys are fetched again after this long.
  static constexpr int64_t kRememberedMs = 3'600'000;

  using Call = std::function<absl::StatusOr<common::HttpResponse>(const common::HttpCall&)>;
  Provider(Client client, Call call) : client_(std::move(client)), call_(std::move(call)) {}

  const std::string& issuer() const { return client_.issuer; }

  struct Times {
    int64_t mono_ms = 0;
    int64_t wall_ms = 0;
  };
  // Begins a sign-in. Errors: UNAVAILABLE (JC1362): the provider does not answer, or cannot be discovered;
  // FAILED_PRECONDITION (JC1362): its answer is wrong.
  absl::StatusOr<DeviceGrant> Begin(const Times& now);
  // Whether the person has confirmed. Errors: as above, UNAUTHENTICATED (JC1365): the ID token is
  // refused; CANCELLED: the coordinator is stopping.
  struct Answer {
    TokenAnswer::Kind kind = TokenAnswer::Kind::kPending;
    std::string subject;  // with kToken: who signed in
  };
  absl::StatusOr<Answer> Ask(const std::string& device_code, const Times& now);

 private:
  using Keys = std::shared_ptr<const std::vector<Key>>;
  absl::StatusOr<Metadata> Discovered(int64_t now_ms);
  absl::StatusOr<Keys> KeysOf(const Metadata& metadata, int64_t now_ms, bool again);
  absl::StatusOr<std::string> SubjectOf(const Metadata& metadata, const std::string& token,
                                        const Times& now);
  absl::StatusOr<common::HttpResponse> Get(const common::HttpUrl& url) const;
  struct Form {
    const Metadata& metadata;
    const common::HttpUrl& url;
    std::vector<std::pair<std::string, std::string>> fields;
  };
  absl::StatusOr<common::HttpResponse> Send(const Form& form) const;

  const Client client_;
  const Call call_;
  std::mutex mutex_;  // guards what follows
  std::optional<Metadata> metadata_;
  int64_t metadata_until_ms_ = 0;
  Keys keys_;
  int64_t keys_until_ms_ = 0;
};

}  // namespace muster::coordinator::oidc
