// Who is who, in memory.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "coordinator/stores/identity_store.h"

namespace muster::coordinator {

// Outlives the stores that are opened on it, as a database does.
struct MemoryIdentities {
  std::mutex mutex;  // guards what follows
  std::map<std::string, v1::User> users;
  std::map<std::string, v1::Token> tokens;
  std::map<std::string, v1::Credential> credentials;
  std::map<std::string, v1::Project> projects;
  std::map<std::pair<std::string, std::string>, v1::Secret> secrets;  // by OwnerKey and name
};

class MemoryIdentityStore final : public IdentityStore {
 public:
  explicit MemoryIdentityStore(std::shared_ptr<MemoryIdentities> kept) : kept_(std::move(kept)) {}

  absl::StatusOr<std::vector<v1::User>> Users() override;
  absl::Status PutUser(const v1::User& user) override;
  absl::StatusOr<bool> RemoveUser(const std::string& name) override;
  absl::StatusOr<std::vector<v1::Token>> Tokens() override;
  absl::Status AddToken(const v1::Token& token, const std::optional<v1::User>& user) override;
  absl::StatusOr<bool> RemoveToken(const std::string& id) override;
  absl::StatusOr<std::optional<v1::Token>> UseToken(const TokenUse& use) override;
  absl::StatusOr<std::vector<v1::Credential>> Credentials(const CredentialPage& page) override;
  absl::StatusOr<std::optional<v1::Credential>> FindCredential(const std::string& serial) override;
  absl::StatusOr<std::vector<v1::Credential>> RevokedCredentials() override;
  absl::StatusOr<uint64_t> CountCredentials() override;
  absl::Status AddCredential(const v1::Credential& credential) override;
  absl::StatusOr<std::vector<v1::Credential>> Revoke(const Revocation& revocation) override;
  absl::StatusOr<std::vector<v1::Project>> Projects() override;
  absl::Status PutProject(const v1::Project& project) override;
  absl::StatusOr<bool> RemoveProject(const std::string& name) override;
  absl::StatusOr<std::vector<v1::Secret>> Secrets(const std::string& owner) override;
  absl::StatusOr<std::optional<v1::Secret>> FindSecret(const std::string& owner,
                                                       const std::string& name) override;
  absl::Status PutSecret(const v1::Secret& secret) override;
  absl::StatusOr<bool> RemoveSecret(const std::string& owner, const std::string& name) override;
  absl::StatusOr<uint64_t> Forget(const Horizon& horizon) override;

 private:
  const std::shared_ptr<MemoryIdentities> kept_;
};

}  // namespace muster::coordinator
