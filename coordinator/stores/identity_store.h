// Stores who is who: users, tokens, certificates, projects, secrets. Every change is durable when its
// call returns, and atomic. Any thread; every call may wait for a disk. The layer above decides what may
// be kept, and how much of it (identity/directory.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "muster/v1/identity.pb.h"

namespace muster::coordinator {

class IdentityStore {
 public:
  virtual ~IdentityStore() = default;

  // Lists are sorted by name, or by id or serial.
  virtual absl::StatusOr<std::vector<v1::User>> Users() = 0;
  virtual absl::Status PutUser(const v1::User& user) = 0;
  // Also removes the user's sign-in tokens and secrets; certificates stay, because they have to be refused.
  // False: there was no such user.
  virtual absl::StatusOr<bool> RemoveUser(const std::string& name) = 0;

  virtual absl::StatusOr<std::vector<v1::Token>> Tokens() = 0;
  // `user`: written with the token, unless a user of that name exists. ALREADY_EXISTS: the id is taken.
  virtual absl::Status AddToken(const v1::Token& token, const std::optional<v1::User>& user) = 0;
  virtual absl::StatusOr<bool> RemoveToken(const std::string& id) = 0;
  // Takes one use of the token with this id and secret that has not expired at `now_ms`. Returns the
  // token afterwards; nothing: there is no such token, or no use left.
  struct TokenUse {
    std::string id;
    std::string secret_sha256;
    int64_t now_ms = 0;
  };
  virtual absl::StatusOr<std::optional<v1::Token>> UseToken(const TokenUse& use) = 0;

  struct CredentialPage {
    std::string subject;  // empty: all
    std::string after;    // serial
    uint32_t limit = 0;
  };
  virtual absl::StatusOr<std::vector<v1::Credential>> Credentials(const CredentialPage& page) = 0;
  virtual absl::StatusOr<std::optional<v1::Credential>> FindCredential(
      const std::string& serial) = 0;
  virtual absl::StatusOr<std::vector<v1::Credential>> RevokedCredentials() = 0;
  virtual absl::StatusOr<uint64_t> CountCredentials() = 0;
  // ALREADY_EXISTS: the serial is taken.
  virtual absl::Status AddCredential(const v1::Credential& credential) = 0;
  struct Revocation {
    std::string serial;   // one of the two
    std::string subject;  // all of it
    int64_t at_ms = 0;
    std::string by;
    std::string reason;
  };
  // Returns those that it has revoked, as they are now, without those revoked before.
  virtual absl::StatusOr<std::vector<v1::Credential>> Revoke(const Revocation& revocation) = 0;

  virtual absl::StatusOr<std::vector<v1::Project>> Projects() = 0;
  virtual absl::Status PutProject(const v1::Project& project) = 0;
  virtual absl::StatusOr<bool> RemoveProject(const std::string& name) = 0;

  // An owner's (OwnerKey), without their sealed values.
  virtual absl::StatusOr<std::vector<v1::Secret>> Secrets(const std::string& owner_key) = 0;
  virtual absl::StatusOr<std::optional<v1::Secret>> FindSecret(const std::string& owner_key,
                                                               const std::string& name) = 0;
  virtual absl::Status PutSecret(const v1::Secret& secret) = 0;
  virtual absl::StatusOr<bool> RemoveSecret(const std::string& owner_key,
                                            const std::string& name) = 0;

  // Deletes tokens that expired or were used up before `tokens_ms`, and certificates that expired
  // before `credentials_ms` and were not revoked. Returns the number of rows.
  struct Horizon {
    int64_t tokens_ms = 0;
    int64_t credentials_ms = 0;
  };
  virtual absl::StatusOr<uint64_t> Forget(const Horizon& horizon) = 0;
};

}  // namespace muster::coordinator
