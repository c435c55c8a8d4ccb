#include "coordinator/sqlite/identity_store.h"

#include <utility>

#include "common/base/status.h"
#include "common/text/strings.h"
#include "coordinator/core/state/owner.h"
#include "coordinator/sqlite/database/parse_row.h"
#include "coordinator/sqlite/schema.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

// The columns of a message's row besides the message itself.
struct Row {
  std::string_view kind;
  std::string key;
  // Rows are selected by it: the subject of a token or certificate, or the owner.
  std::string subject;
  int64_t expires_ms = 0;  // 0: never
  bool revoked = false;
};

constexpr std::string_view kUser = "user";
constexpr std::string_view kToken = "token";
constexpr std::string_view kCredential = "credential";
constexpr std::string_view kProject = "project";
constexpr std::string_view kSecret = "secret";

// Names have no newline.
std::string SecretKey(const std::string& owner_key, const std::string& name) {
  return StrCat(owner_key, "\n", name);
}

// A used-up token expires at its last use, because only lists need it from then on.
int64_t EndOf(const v1::Token& token) {
  return token.uses_left() == 0 ? token.used_ms() : token.expires_ms();
}

Row RowOf(const v1::User& user) { return {.kind = kUser, .key = user.name()}; }
Row RowOf(const v1::Token& token) {
  return {.kind = kToken,
          .key = token.id(),
          .subject = token.kind() == v1::TOKEN_KIND_SIGN_IN ? token.subject() : "",
          .expires_ms = EndOf(token)};
}
Row RowOf(const v1::Credential& credential) {
  return {.kind = kCredential,
          .key = credential.serial(),
          .subject = credential.subject(),
          .expires_ms = credential.expires_ms(),
          .revoked = credential.revoked_ms() != 0};
}
Row RowOf(const v1::Project& project) { return {.kind = kProject, .key = project.name()}; }
Row RowOf(const v1::Secret& secret) {
  const std::string owner = OwnerKey(secret.owner(), secret.owner_id());
  return {.kind = kSecret, .key = SecretKey(owner, secret.name()), .subject = owner};
}

}  // namespace

absl::StatusOr<std::unique_ptr<IdentityStore>> SqliteIdentityStore::Open(
    const Paths& paths, std::shared_ptr<WriteTurns> turns) {
  std::unique_ptr<SqliteIdentityStore> store(new SqliteIdentityStore(paths, turns));
  ASSIGN_OR_RETURN(
      store->database_,
      OpenForTurns(paths.Database(), *turns, "PRAGMA cache_size=-4096; PRAGMA secure_delete=ON"));
  return store;
}

template <typename Message>
absl::Status SqliteIdentityStore::Put(const Message& message) {
  const Row row = RowOf(message);
  const std::string record = message.SerializeAsString();
  ASSIGN_OR_RETURN(Statement put,
                   database_->Prepare("INSERT OR REPLACE INTO identities"
                                      "(kind, key, subject, expires_ms, revoked, record) "
                                      "VALUES(?1, ?2, ?3, ?4, ?5, ?6)"));
  put.BindText(1, row.kind).BindText(2, row.key).BindText(3, row.subject);
  return put.Bind(4, row.expires_ms).Bind(5, row.revoked ? 1 : 0).BindBlob(6, record).Run();
}

template <typename Message>
absl::StatusOr<std::vector<Message>> SqliteIdentityStore::Collect(Statement& select) {
  std::vector<Message> found;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return found;
    const std::string_view bytes = select.Bytes(0);
    if (!ParseRow(bytes, &found.emplace_back())) {
      return DamagedDatabase(path_, StrCat("a ", RowOf(Message()).kind, " cannot be read"));
    }
  }
}

template <typename Message>
absl::StatusOr<std::vector<Message>> SqliteIdentityStore::All() {
  ASSIGN_OR_RETURN(
      Statement select,
      database_->Prepare("SELECT record FROM identities WHERE kind = ?1 ORDER BY key"));
  return Collect<Message>(select.BindText(1, RowOf(Message()).kind));
}

template <typename Message>
absl::StatusOr<std::optional<Message>> SqliteIdentityStore::Find(const std::string& key) {
  ASSIGN_OR_RETURN(
      Statement select,
      database_->Prepare("SELECT record FROM identities WHERE kind = ?1 AND key = ?2"));
  select.BindText(1, RowOf(Message()).kind).BindText(2, key);
  ASSIGN_OR_RETURN(std::vector<Message> found, Collect<Message>(select));
  if (found.empty()) return std::optional<Message>();
  return std::optional<Message>(std::move(found.front()));
}

absl::StatusOr<bool> SqliteIdentityStore::Remove(std::string_view kind, const std::string& key) {
  ASSIGN_OR_RETURN(Statement remove,
                   database_->Prepare("DELETE FROM identities WHERE kind = ?1 AND key = ?2"));
  RETURN_IF_ERROR(remove.BindText(1, kind).BindText(2, key).Run());
  return database_->Changes() > 0;
}

absl::Status SqliteIdentityStore::RemoveOf(std::string_view kind, const std::string& subject) {
  ASSIGN_OR_RETURN(Statement remove,
                   database_->Prepare("DELETE FROM identities WHERE kind = ?1 AND subject = ?2"));
  return remove.BindText(1, kind).BindText(2, subject).Run();
}

absl::StatusOr<bool> SqliteIdentityStore::RemoveAtomically(std::string_view kind,
                                                           const std::string& key) {
  bool removed = false;
  RETURN_IF_ERROR(Atomically([&]() -> absl::Status {
    ASSIGN_OR_RETURN(removed, Remove(kind, key));
    return absl::OkStatus();
  }));
  return removed;
}

absl::StatusOr<std::vector<v1::User>> SqliteIdentityStore::Users() {
  std::lock_guard lock(mutex_);
  return All<v1::User>();
}

absl::Status SqliteIdentityStore::PutUser(const v1::User& user) {
  std::lock_guard lock(mutex_);
  return Atomically([&]() -> absl::Status {
    RETURN_IF_ERROR(Put(user));
    return user.id().empty() ? absl::OkStatus() : MarkNewest(*database_);
  });
}

absl::StatusOr<bool> SqliteIdentityStore::RemoveUser(const std::string& name) {
  std::lock_guard lock(mutex_);
  bool removed = false;
  RETURN_IF_ERROR(Atomically([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const auto user, Find<v1::User>(name));
    if (!user.has_value()) return absl::OkStatus();
    RETURN_IF_ERROR(RemoveOf(kToken, name));
    RETURN_IF_ERROR(RemoveOf(kSecret, OwnerKey(StrCat("user:", name), user->id())));
    RETURN_IF_ERROR(RemoveOf(kSecret, name));  // of "uid:1000", whose owner is named like the user
    ASSIGN_OR_RETURN(removed, Remove(kUser, name));
    return absl::OkStatus();
  }));
  return removed;
}

absl::StatusOr<std::vector<v1::Token>> SqliteIdentityStore::Tokens() {
  std::lock_guard lock(mutex_);
  return All<v1::Token>();
}

absl::Status SqliteIdentityStore::AddToken(const v1::Token& token,
                                           const std::optional<v1::User>& user) {
  std::lock_guard lock(mutex_);
  return Atomically([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const auto taken, Find<v1::Token>(token.id()));
    if (taken.has_value()) return absl::AlreadyExistsError(StrCat("token ", token.id(), " exists"));
    if (user.has_value()) {
      ASSIGN_OR_RETURN(const auto known, Find<v1::User>(user->name()));
      if (!known.has_value()) {
        RETURN_IF_ERROR(Put(*user));
        RETURN_IF_ERROR(MarkNewest(*database_));
      }
    }
    return Put(token);
  });
}

absl::StatusOr<bool> SqliteIdentityStore::RemoveToken(const std::string& id) {
  std::lock_guard lock(mutex_);
  return RemoveAtomically(kToken, id);
}

absl::StatusOr<std::optional<v1::Token>> SqliteIdentityStore::UseToken(const TokenUse& use) {
  std::lock_guard lock(mutex_);
  std::optional<v1::Token> used;
  RETURN_IF_ERROR(Atomically([&]() -> absl::Status {
    ASSIGN_OR_RETURN(std::optional<v1::Token> token, Find<v1::Token>(use.id));
    if (!token.has_value() || token->secret_sha256() != use.secret_sha256 ||
        token->uses_left() == 0 || token->expires_ms() <= use.now_ms) {
      return absl::OkStatus();
    }
    token->set_uses_left(token->uses_left() - 1);
    token->set_used_ms(use.now_ms);
    RETURN_IF_ERROR(Put(*token));
    used = std::move(token);
    return absl::OkStatus();
  }));
  return used;
}

absl::StatusOr<std::vector<v1::Credential>> SqliteIdentityStore::Credentials(
    const CredentialPage& page) {
  std::lock_guard lock(mutex_);
  std::string sql = "SELECT record FROM identities WHERE kind = ?1 AND key > ?2";
  if (!page.subject.empty()) sql += " AND subject = ?4";
  sql += " ORDER BY key LIMIT ?3";
  ASSIGN_OR_RETURN(Statement select, database_->Prepare(sql));
  select.BindText(1, kCredential).BindText(2, page.after).Bind(3, page.limit);
  if (!page.subject.empty()) select.BindText(4, page.subject);
  return Collect<v1::Credential>(select);
}

absl::StatusOr<std::optional<v1::Credential>> SqliteIdentityStore::FindCredential(
    const std::string& serial) {
  std::lock_guard lock(mutex_);
  return Find<v1::Credential>(serial);
}

absl::StatusOr<std::vector<v1::Credential>> SqliteIdentityStore::RevokedCredentials() {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(
      Statement select,
      database_->Prepare("SELECT record FROM identities WHERE kind = ?1 AND revoked ORDER BY key"));
  return Collect<v1::Credential>(select.BindText(1, kCredential));
}

absl::StatusOr<uint64_t> SqliteIdentityStore::CountCredentials() {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(const int64_t count,
                   database_->Scalar("SELECT count(*) FROM identities WHERE kind = 'credential'"));
  return static_cast<uint64_t>(count);
}

absl::Status SqliteIdentityStore::AddCredential(const v1::Credential& credential) {
  std::lock_guard lock(mutex_);
  return Atomically([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const auto taken, Find<v1::Credential>(credential.serial()));
    if (!taken.has_value()) return Put(credential);
    return absl::AlreadyExistsError(StrCat("certificate ", credential.serial(), " exists"));
  });
}

absl::StatusOr<std::vector<v1::Credential>> SqliteIdentityStore::Revoke(
    const Revocation& revocation) {
  std::lock_guard lock(mutex_);
  std::vector<v1::Credential> revoked;
  RETURN_IF_ERROR(Atomically([&]() -> absl::Status {
    ASSIGN_OR_RETURN(
        Statement select,
        database_->Prepare(StrCat("SELECT record FROM identities WHERE kind = ?1 AND NOT revoked "
                                  "AND ",
                                  revocation.serial.empty() ? "subject" : "key", " = ?2")));
    select.BindText(1, kCredential)
        .BindText(2, revocation.serial.empty() ? revocation.subject : revocation.serial);
    ASSIGN_OR_RETURN(revoked, Collect<v1::Credential>(select));
    for (v1::Credential& credential : revoked) {
      credential.set_revoked_ms(revocation.at_ms);
      credential.set_revoked_by(revocation.by);
      credential.set_reason(revocation.reason);
      RETURN_IF_ERROR(Put(credential));
    }
    return absl::OkStatus();
  }));
  return revoked;
}

absl::StatusOr<std::vector<v1::Project>> SqliteIdentityStore::Projects() {
  std::lock_guard lock(mutex_);
  return All<v1::Project>();
}

absl::Status SqliteIdentityStore::PutProject(const v1::Project& project) {
  std::lock_guard lock(mutex_);
  return Atomically([&]() -> absl::Status {
    RETURN_IF_ERROR(Put(project));
    return project.closed() ? MarkNewest(*database_) : absl::OkStatus();
  });
}

absl::StatusOr<bool> SqliteIdentityStore::RemoveProject(const std::string& name) {
  std::lock_guard lock(mutex_);
  return RemoveAtomically(kProject, name);
}

absl::StatusOr<std::vector<v1::Secret>> SqliteIdentityStore::Secrets(const std::string& owner_key) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(Statement select,
                   database_->Prepare("SELECT record FROM identities WHERE kind = ?1 AND "
                                      "subject = ?2 ORDER BY key"));
  select.BindText(1, kSecret).BindText(2, owner_key);
  ASSIGN_OR_RETURN(std::vector<v1::Secret> secrets, Collect<v1::Secret>(select));
  for (v1::Secret& secret : secrets) secret.clear_sealed();
  return secrets;
}

absl::StatusOr<std::optional<v1::Secret>> SqliteIdentityStore::FindSecret(
    const std::string& owner_key, const std::string& name) {
  std::lock_guard lock(mutex_);
  return Find<v1::Secret>(SecretKey(owner_key, name));
}

absl::Status SqliteIdentityStore::PutSecret(const v1::Secret& secret) {
  std::lock_guard lock(mutex_);
  return Atomically([&] { return Put(secret); });
}

absl::StatusOr<bool> SqliteIdentityStore::RemoveSecret(const std::string& owner_key,
                                                       const std::string& name) {
  std::lock_guard lock(mutex_);
  return RemoveAtomically(kSecret, SecretKey(owner_key, name));
}

absl::StatusOr<uint64_t> SqliteIdentityStore::Forget(const Horizon& horizon) {
  std::lock_guard lock(mutex_);
  uint64_t forgotten = 0;
  RETURN_IF_ERROR(Atomically([&]() -> absl::Status {
    for (const auto& [kind, before_ms] :
         {std::pair(kToken, horizon.tokens_ms), std::pair(kCredential, horizon.credentials_ms)}) {
      ASSIGN_OR_RETURN(Statement remove,
                       database_->Prepare("DELETE FROM identities WHERE kind = ?1 AND "
                                          "expires_ms > 0 AND expires_ms < ?2 AND NOT revoked"));
      RETURN_IF_ERROR(remove.BindText(1, kind).Bind(2, before_ms).Run());
      forgotten += static_cast<uint64_t>(database_->Changes());
    }
    return absl::OkStatus();
  }));
  return forgotten;
}

}  // namespace muster::coordinator
