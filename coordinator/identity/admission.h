// Who is calling, and whether the call is allowed. The last check before any handler, over gRPC and
// HTTP alike: what this refuses reaches no handler.
//
// How a caller is identified, and what it may do:
//   private coordinator   its own uid and root: admin
//   unix socket           root and the coordinator's own uid: admin; other uids: the role recorded
//                         for the user "uid:N", if there is one, otherwise user
//   plaintext TCP         everyone: admin (--insecure-plaintext); with identities, no one
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
    People people;        // without functions: no user is recorded, nothing is revoked
  };
  explicit Admission(Options options) : options_(std::move(options)) {}

  Caller OfLocal(uint32_t uid) const;
  // `from`: "10.0.0.7:41180". "peer:10.0.0.7" without the port.
  Caller OfPlaintext(std::string_view from) const;
  // For a connection whose certificate TLS has verified. UNAUTHENTICATED (JC1324): it was revoked, has
  // since expired, is another cluster's, or its user may not sign in.
  absl::StatusOr<Caller> OfCertificate(std::string_view pem, std::string from,
                                       int64_t now_ms) const;
  // For a user who was authenticated in another way, such as an HTTP session.
  absl::StatusOr<Caller> OfPrincipal(std::string_view principal, std::string from) const;

  // PERMISSION_DENIED (JC1320) names the caller, its role and the role that the call needs.
  absl::Status Admit(const common::Call& call, const Caller& caller) const;

 private:
  static constexpr size_t kCertificatesRemembered = 10'000;

  absl::StatusOr<identity::CertificateFacts> Read(std::string_view pem) const;
  absl::StatusOr<Caller> OfUser(const std::string& name, std::string from) const;

  const Options options_;
  mutable std::mutex mutex_;  // guards what follows
  // The facts of certificates, by their text, so that a call costs no parsing.
  mutable common::LruMap<std::string, identity::CertificateFacts> read_{kCertificatesRemembered};
};

}  // namespace muster::coordinator
