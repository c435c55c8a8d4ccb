// Who is calling, and whether the call is allowed. The last word before any handler, over gRPC and
// HTTP alike: what this refuses reaches no handler.
//
// How a caller is known, and what it may do:
//   private coordinator   its own uid and root: admin
//   unix socket           root and the coordinator's own uid: admin; other uids: the user "uid:N",
//                         where there is one, otherwise a user
//   plaintext TCP         everybody: admin (--insecure-plaintext); where there are identities, nobody
//   certificate           user/NAME: as the user is recorded; worker/NAME: a worker
// Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/lru_map.h"
#include "common/calls.h"
#include "coordinator/core/state/input.h"
#include "identity/certificate.h"

namespace muster::coordinator {

class Admission {
 public:
  // What is known of people and certificates; never blocks.
  struct People {
    std::function<std::optional<v1::User>(std::string_view name)> user;
    std::function<bool(std::string_view serial)> is_revoked;
  };
  struct Options {
    bool is_private = false;
    uint32_t own_uid = 0;
    std::string cluster;  // empty: no identities
    People people;        // without functions: nobody is recorded, nothing revoked
  };
  explicit Admission(Options options) : options_(std::move(options)) {}

  Caller OfLocal(uint32_t uid) const;
  // `from`: "10.0.0.7:41180". "peer:10.0.0.7" without the port.
  Caller OfPlaintext(std::string_view from) const;
  // Of a connection whose certificate TLS has verified. UNAUTHENTICATED (JC1324): revoked, expired
  // since, of another cluster, or a user who may not do anything.
  absl::StatusOr<Caller> OfCertificate(std::string_view pem, std::string from,
                                       int64_t now_ms) const;
  // Of a user who has proved to be one in another way, as a session of HTTP does.
  absl::StatusOr<Caller> OfPrincipal(std::string_view principal, std::string from) const;

  // PERMISSION_DENIED (JC1320) names the caller, its role and the role that the call needs.
  absl::Status Admit(const common::Call& call, const Caller& caller) const;

 private:
  static constexpr size_t kCertificatesRemembered = 10'000;

  absl::StatusOr<identity::CertificateFacts> Read(std::string_view pem) const;
  absl::StatusOr<Caller> OfUser(const std::string& name, std::string from) const;

  const Options options_;
  mutable std::mutex mutex_;  // guards what follows
  // What was read of certificates, by their text: a call costs no parsing.
  mutable common::LruMap<std::string, identity::CertificateFacts> read_{kCertificatesRemembered};
};

}  // namespace muster::coordinator
