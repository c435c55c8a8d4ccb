// Identities in the table `identities` of the journal's SQLite file, over a separate connection. One call at a
// time; a write waits for its turn (write_turns.h).
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/sqlite/database/database.h"
#include "coordinator/sqlite/database/write_turns.h"
#include "coordinator/stores/identity_store.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

class SqliteIdentityStore final : public IdentityStore {
 public:
  // Call it after the journal has created the tables, and pass the journal's turns.
  static absl::StatusOr<std::unique_ptr<IdentityStore>> Open(const Paths& paths,
                                                             std::shared_ptr<WriteTurns> turns);

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
  absl::StatusOr<std::vector<v1::Secret>> Secrets(const std::string& owner_key) override;
  absl::StatusOr<std::optional<v1::Secret>> FindSecret(const std::string& owner_key,
                                                       const std::string& name) override;
  absl::Status PutSecret(const v1::Secret& secret) override;
  absl::StatusOr<bool> RemoveSecret(const std::string& owner_key, const std::string& name) override;
  absl::StatusOr<uint64_t> Forget(const Horizon& horizon) override;

 private:
  SqliteIdentityStore(const Paths& paths, std::shared_ptr<WriteTurns> turns)
      : path_(paths.Database()), turns_(std::move(turns)) {}

  // All with the lock held.
  template <typename Message>
  absl::Status Put(const Message& message);
  template <typename Message>
  absl::StatusOr<std::optional<Message>> Find(const std::string& key);
  template <typename Message>
  absl::StatusOr<std::vector<Message>> Collect(Statement& select);
  template <typename Message>
  absl::StatusOr<std::vector<Message>> All();
  absl::StatusOr<bool> Remove(std::string_view kind, const std::string& key);
  // Removes the rows of a kind with this subject.
  absl::Status RemoveOf(std::string_view kind, const std::string& subject);
  absl::Status Atomically(const std::function<absl::Status()>& work) {
    return turns_->Write(*database_, work);
  }
  // Remove as a transaction.
  absl::StatusOr<bool> RemoveAtomically(std::string_view kind, const std::string& key);

  const std::string path_;
  const std::shared_ptr<WriteTurns> turns_;
  std::mutex mutex_;  // guards the connection
  std::unique_ptr<Database> database_;
};

}  // namespace muster::coordinator
