#include "tests/stores/memory_identity_store.h"

#include "common/text/strings.h"
#include "coordinator/core/state/owner.h"

namespace muster::coordinator {
namespace {

template <typename Map>
auto ValuesOf(const Map& map) {
  std::vector<typename Map::mapped_type> values;
  for (const auto& [key, value] : map) values.push_back(value);
  return values;
}

template <typename Map, typename Key>
std::optional<typename Map::mapped_type> FindIn(const Map& map, const Key& key) {
  const auto found = map.find(key);
  if (found == map.end()) return std::nullopt;
  return found->second;
}

}  // namespace

absl::StatusOr<std::vector<v1::User>> MemoryIdentityStore::Users() {
  std::lock_guard lock(kept_->mutex);
  return ValuesOf(kept_->users);
}

absl::Status MemoryIdentityStore::PutUser(const v1::User& user) {
  std::lock_guard lock(kept_->mutex);
  kept_->users[user.name()] = user;
  return absl::OkStatus();
}

absl::StatusOr<bool> MemoryIdentityStore::RemoveUser(const std::string& name) {
  std::lock_guard lock(kept_->mutex);
  std::erase_if(kept_->tokens, [&](const auto& each) {
    return each.second.kind() == v1::TOKEN_KIND_SIGN_IN && each.second.subject() == name;
  });
  const auto user = FindIn(kept_->users, name);
  if (!user.has_value()) return false;
  const std::string owner = OwnerKey(common::StrCat("user:", name), user->id());
  std::erase_if(kept_->secrets, [&](const auto& each) {
    return each.first.first == name || each.first.first == owner;
  });
  return kept_->users.erase(name) > 0;
}

absl::StatusOr<std::vector<v1::Token>> MemoryIdentityStore::Tokens() {
  std::lock_guard lock(kept_->mutex);
  return ValuesOf(kept_->tokens);
}

absl::Status MemoryIdentityStore::AddToken(const v1::Token& token,
                                           const std::optional<v1::User>& user) {
  std::lock_guard lock(kept_->mutex);
  if (!kept_->tokens.emplace(token.id(), token).second) return absl::AlreadyExistsError(token.id());
  if (user.has_value()) kept_->users.emplace(user->name(), *user);
  return absl::OkStatus();
}

absl::StatusOr<bool> MemoryIdentityStore::RemoveToken(const std::string& id) {
  std::lock_guard lock(kept_->mutex);
  return kept_->tokens.erase(id) > 0;
}

absl::StatusOr<std::optional<v1::Token>> MemoryIdentityStore::UseToken(const TokenUse& use) {
  std::lock_guard lock(kept_->mutex);
  const auto found = kept_->tokens.find(use.id);
  if (found == kept_->tokens.end()) return std::optional<v1::Token>();
  v1::Token& token = found->second;
  if (token.secret_sha256() != use.secret_sha256 || token.uses_left() == 0 ||
      token.expires_ms() <= use.now_ms) {
    return std::optional<v1::Token>();
  }
  token.set_uses_left(token.uses_left() - 1);
  token.set_used_ms(use.now_ms);
  return std::optional<v1::Token>(token);
}

absl::StatusOr<std::vector<v1::Credential>> MemoryIdentityStore::Credentials(
    const CredentialPage& page) {
  std::lock_guard lock(kept_->mutex);
  std::vector<v1::Credential> found;
  for (auto each = kept_->credentials.upper_bound(page.after);
       each != kept_->credentials.end() && found.size() < page.limit; ++each) {
    if (page.subject.empty() || each->second.subject() == page.subject)
      found.push_back(each->second);
  }
  return found;
}

absl::StatusOr<std::optional<v1::Credential>> MemoryIdentityStore::FindCredential(
    const std::string& serial) {
  std::lock_guard lock(kept_->mutex);
  return FindIn(kept_->credentials, serial);
}

absl::StatusOr<std::vector<v1::Credential>> MemoryIdentityStore::RevokedCredentials() {
  std::lock_guard lock(kept_->mutex);
  std::vector<v1::Credential> found = ValuesOf(kept_->credentials);
  std::erase_if(found, [](const v1::Credential& each) { return each.revoked_ms() == 0; });
  return found;
}

absl::StatusOr<uint64_t> MemoryIdentityStore::CountCredentials() {
  std::lock_guard lock(kept_->mutex);
  return kept_->credentials.size();
}

absl::Status MemoryIdentityStore::AddCredential(const v1::Credential& credential) {
  std::lock_guard lock(kept_->mutex);
  if (kept_->credentials.emplace(credential.serial(), credential).second) return absl::OkStatus();
  return absl::AlreadyExistsError(credential.serial());
}

absl::StatusOr<std::vector<v1::Credential>> MemoryIdentityStore::Revoke(
    const Revocation& revocation) {
  std::lock_guard lock(kept_->mutex);
  std::vector<v1::Credential> revoked;
  for (auto& [serial, credential] : kept_->credentials) {
    const bool meant = revocation.serial.empty() ? credential.subject() == revocation.subject
                                                 : serial == revocation.serial;
    if (!meant || credential.revoked_ms() != 0) continue;
    credential.set_revoked_ms(revocation.at_ms);
    credential.set_revoked_by(revocation.by);
    credential.set_reason(revocation.reason);
    revoked.push_back(credential);
  }
  return revoked;
}

absl::StatusOr<std::vector<v1::Project>> MemoryIdentityStore::Projects() {
  std::lock_guard lock(kept_->mutex);
  return ValuesOf(kept_->projects);
}

absl::Status MemoryIdentityStore::PutProject(const v1::Project& project) {
  std::lock_guard lock(kept_->mutex);
  kept_->projects[project.name()] = project;
  return absl::OkStatus();
}

absl::StatusOr<bool> MemoryIdentityStore::RemoveProject(const std::string& name) {
  std::lock_guard lock(kept_->mutex);
  return kept_->projects.erase(name) > 0;
}

absl::StatusOr<std::vector<v1::Secret>> MemoryIdentityStore::Secrets(const std::string& owner) {
  std::lock_guard lock(kept_->mutex);
  std::vector<v1::Secret> secrets;
  for (const auto& [key, secret] : kept_->secrets) {
    if (key.first == owner) secrets.push_back(secret);
  }
  for (v1::Secret& secret : secrets) secret.clear_sealed();
  return secrets;
}

absl::StatusOr<std::optional<v1::Secret>> MemoryIdentityStore::FindSecret(const std::string& owner,
                                                                          const std::string& name) {
  std::lock_guard lock(kept_->mutex);
  return FindIn(kept_->secrets, std::pair(owner, name));
}

absl::Status MemoryIdentityStore::PutSecret(const v1::Secret& secret) {
  std::lock_guard lock(kept_->mutex);
  kept_->secrets[{OwnerKey(secret.owner(), secret.owner_id()), secret.name()}] = secret;
  return absl::OkStatus();
}

absl::StatusOr<bool> MemoryIdentityStore::RemoveSecret(const std::string& owner,
                                                       const std::string& name) {
  std::lock_guard lock(kept_->mutex);
  return kept_->secrets.erase({owner, name}) > 0;
}

absl::StatusOr<uint64_t> MemoryIdentityStore::Forget(const Horizon& horizon) {
  std::lock_guard lock(kept_->mutex);
  return std::erase_if(kept_->tokens,
                       [&](const auto& each) {
                         const v1::Token& token = each.second;
                         const int64_t end =
                             token.uses_left() == 0 ? token.used_ms() : token.expires_ms();
                         return end < horizon.tokens_ms;
                       }) +
         std::erase_if(kept_->credentials, [&](const auto& each) {
           return each.second.expires_ms() < horizon.credentials_ms &&
                  each.second.revoked_ms() == 0;
         });
}

}  // namespace muster::coordinator
