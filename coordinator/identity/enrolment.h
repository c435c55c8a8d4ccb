// The server's side of enrolment. A node joins and a person signs in with a token; a person also signs in
// through the identity provider; both renew with their old key. Rules and order; the HTTP around it is
// http/sign_in/enroll.h. Blocks on the disk; any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "identity/certificate.h"
#include "identity/join_token.h"
#include "muster/v1/identity.pb.h"

namespace muster::coordinator {

// Begins Credential.issued_for of a renewed certificate; the serial of the older one follows.
inline constexpr std::string_view kRenewalOf = "renewal of ";

// What enrolment needs of the directory. Changes are durable when their call returns.
class EnrolmentRecords {
 public:
  virtual ~EnrolmentRecords() = default;
  virtual absl::StatusOr<std::optional<v1::Token>> FindToken(const std::string& id) = 0;
  // Takes one use, if there is one left for this secret, now; nothing otherwise.
  struct TokenUse {
    std::string id;
    std::string secret_sha256;
    v1::TokenKind kind = v1::TOKEN_KIND_UNSPECIFIED;
    std::string subject;  // join: the node's name
  };
  virtual absl::StatusOr<std::optional<v1::Token>> UseToken(const TokenUse& use) = 0;
  virtual std::optional<v1::User> FindUser(const std::string& name) = 0;
  // The user that "ISSUER SUBJECT" of an identity provider signs in as.
  virtual std::optional<v1::User> FindUserByOidc(const std::string& subject) = 0;
  // How many certificates of this subject ("worker/node1") are neither expired nor revoked.
  virtual absl::StatusOr<size_t> CountValid(const std::string& subject, int64_t now_ms) = 0;
  // The certificate as it was recorded; nothing: it was not, or is forgotten.
  virtual absl::StatusOr<std::optional<v1::Credential>> FindCredential(
      const std::string& serial) = 0;
  virtual bool IsRevoked(const std::string& serial) = 0;
  virtual absl::Status Record(const v1::Credential& credential) = 0;
  // Refuses all certificates of a subject from now on.
  struct Replacement {
    std::string subject;
    std::string by;
    std::string reason;
    int64_t now_ms = 0;
  };
  virtual absl::Status Revoke(const Replacement& replacement) = 0;
};

class Enrolment {
 public:
  static constexpr int64_t kWorkerLivesMs = 7LL * 24 * 3'600'000;
  static constexpr int64_t kUserLivesMs = 12LL * 3'600'000;
  // How long a worker may still renew after its certificate has expired: the coordinator may have been
  // down.
  static constexpr int64_t kRenewableForMs = 30LL * 24 * 3'600'000;
  // Valid certificates of one subject at once: a subject that keeps requesting them must not fill the
  // records.
  // limit: enrolment: valid certificates of one member; JC1359
  static constexpr size_t kValidMost = 64;
  // How far the client's clock may be from ours in a renewal: a captured request is soon useless.
  static constexpr int64_t kClockOffByMs = 5 * 60'000;

  struct Place {
    std::string endpoint;  // Enrolled.endpoint
    int64_t worker_lives_ms = kWorkerLivesMs;
    int64_t user_lives_ms = kUserLivesMs;
    // What a further coordinator gets besides the authority; an empty state: there can be none.
    std::string state;
    std::string secrets_key;
  };
  // All outlive this.
  Enrolment(const identity::Authority& authority, EnrolmentRecords& records, Place place)
      : authority_(authority), records_(records), place_(std::move(place)) {}

  // The answer and, for the audit, who asked ("token:ab12…", "worker:node1") about what
  // ("worker/node1"). Both are also set for refusals, as far as known.
  template <typename Message>
  struct OutcomeOf {
    absl::StatusOr<Message> answer;
    std::string who;
    std::string object;
  };
  using Outcome = OutcomeOf<v1::Enrolled>;
  // `is_known`: the cluster has, or had, a node of that name. Then only a token for exactly that name
  // will do; otherwise the bearer of any token could take the node's place. Older certificates of that
  // name are revoked.
  struct Asked {
    int64_t now_ms = 0;
    bool is_known = false;
  };
  Outcome Join(const v1::JoinRequest& request, const Asked& asked);
  Outcome SignIn(const v1::EnrollPersonRequest& request, const Asked& asked);
  Outcome Renew(const v1::RenewRequest& request, const Asked& asked);
  // The machine becomes a coordinator.
  OutcomeOf<v1::CoordinatorKeys> ShareKeys(const v1::CoordinatorJoinRequest& request,
                                           const Asked& asked);
  // A person whom the identity provider has named.
  struct Proven {
    std::string issuer;
    std::string subject;
    std::string csr_pem;
  };
  Outcome SignInAs(const Proven& proven, const Asked& asked);
  // PublicKeyHash of the key that a request wants certified. INVALID_ARGUMENT (JC1353).
  static absl::StatusOr<std::string> KeyHashOf(const std::string& csr_pem);
  const std::string& authority_pem() const { return authority_.certificate_pem(); }

 private:
  struct Order {
    identity::Subject subject;
    identity::KeyHandle key;
    std::string issued_for;
    int64_t now_ms = 0;
    std::string user_id = {};  // of a person: who it is for
  };
  // A token of this kind that can still be used, for this subject's name or any.
  absl::StatusOr<v1::Token> CheckToken(const identity::TokenText& text, v1::TokenKind kind,
                                       int64_t now_ms);
  absl::Status TakeUse(const identity::TokenText& text, v1::TokenKind kind,
                       const std::string& subject);
  absl::Status CheckNodeName(const v1::Token& token, const std::string& node, const Asked& asked);
  absl::StatusOr<v1::User> CheckUser(const std::string& name);
  // The certificate as it was recorded.
  absl::StatusOr<v1::Credential> CheckMayRenew(const identity::CertificateFacts& old,
                                               int64_t now_ms);
  // Whether one more certificate of this subject may be valid.
  absl::Status CheckRoom(const identity::Subject& subject, int64_t now_ms);
  absl::StatusOr<v1::Enrolled> JoinWith(const identity::TokenText& text,
                                        const v1::JoinRequest& request, const Asked& asked);
  absl::StatusOr<v1::CoordinatorKeys> KeysFor(const identity::TokenText& text, const Asked& asked);
  absl::StatusOr<v1::User> UserOf(const Proven& proven);
  absl::StatusOr<v1::Enrolled> RenewFrom(const identity::CertificateFacts& old,
                                         const v1::RenewRequest& request, int64_t now_ms);
  absl::StatusOr<v1::Enrolled> Issue(const Order& order);
  // With issuing_ held.
  absl::StatusOr<v1::Enrolled> IssueLocked(const Order& order);

  const identity::Authority& authority_;
  EnrolmentRecords& records_;
  const Place place_;
  // Held from the check of what is enrolled until the new certificate is recorded: two nodes that join at
  // once never get the same name, and no subject gets more certificates than kValidMost.
  std::mutex issuing_;
};

}  // namespace muster::coordinator
