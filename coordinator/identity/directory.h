// Who is who, for every call: a view in memory of what stores/identity_store.h keeps, and the rules
// for what may be kept. Questions are answered on any thread without a wait; changes wait for the disk
// and are made on the pool.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "coordinator/stores/identity_store.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

class Directory {
 public:
  // limit: identities: users; refused (JC1334)
  static constexpr size_t kUsersMax = 10'000;
  // limit: identities: usable tokens; refused (JC1334)
  static constexpr size_t kTokensMax = 1'000;  // that can still be used
  static constexpr uint32_t kTokenUsesMax = 10'000;
  static constexpr int64_t kTokenLivesMs = 3'600'000;
  static constexpr int64_t kTokenLivesMaxMs = 30LL * 24 * 3'600'000;
  static constexpr int64_t kCoordinatorsTokenLivesMaxMs = 24LL * 3'600'000;
  // limit: identities: certificates; refused (JC1334)
  static constexpr size_t kCredentialsMax = 100'000;
  // How long an expired worker certificate still authorizes its own renewal.
  static constexpr int64_t kRenewableMs = 30LL * 24 * 3'600'000;
  // limit: identities: projects; refused (JC1334)
  static constexpr size_t kProjectsMax = 1'000;
  // limit: identities: members of a project; refused (JC1334)
  static constexpr size_t kMembersMax = 1'000;  // of a project
  // limit: identities: devices of one kind in a project's quota or limit; refused (JC1331)
  static constexpr uint32_t kQuotaMax = 1'000'000;
  // limit: identities: weight of a project; refused (JC1331)
  static constexpr uint32_t kWeightMax = 1'000;
  // limit: identities: secrets of an owner; refused (JC1334)
  static constexpr size_t kSecretsMax = 1'000;  // of an owner
  // limit: identities: a secret's value; refused
  static constexpr size_t kSecretBytesMax = 64 << 10;
  static constexpr std::string_view kDefaultProject = "default";

  Directory(IdentityStore& store, const common::Clock& clock);

  // Call it before anything else. Deletes what 0.2.0 left behind of removed people.
  absl::Status Load();

  // ---- questions: any thread, no wait

  std::optional<v1::User> FindUser(std::string_view name) const;
  std::optional<v1::User> FindUserByOidc(std::string_view subject) const;
  // The unix account that an administrator has named for this principal; empty: none.
  std::string AccountOf(std::string_view principal) const;
  // Whether this person was removed, even if another now has the name.
  bool IsGone(std::string_view principal, std::string_view user_id) const;
  bool IsRevoked(std::string_view serial) const;
  // Whether this principal ("user:alice", "uid:1000") may submit to the project; empty: the default
  // project. NOT_FOUND or PERMISSION_DENIED.
  absl::Status CheckProject(std::string_view project, std::string_view principal) const;
  std::vector<v1::User> Users() const;
  std::vector<v1::Project> Projects() const;

  // ---- changes: on the pool. `by`: the principal that asks

  absl::StatusOr<v1::User> SetUser(const v1::SetUserRequest& request, const std::string& by);
  // Also removes its sign-in tokens, secrets and memberships; revokes and returns its certificates. A
  // user who gets the name later is another person (User.id).
  absl::StatusOr<std::vector<v1::Credential>> RemoveUser(const std::string& name,
                                                         const std::string& by);

  // `secret_sha256`: of the secret that the caller has made. A sign-in for an unknown user adds it.
  struct NewToken {
    std::string id;
    std::string secret_sha256;
  };
  absl::StatusOr<v1::Token> CreateToken(const v1::CreateTokenRequest& request, NewToken made,
                                        const std::string& by);
  absl::StatusOr<std::vector<v1::Token>> Tokens();
  absl::Status RevokeToken(const std::string& id);
  // What the bearer of a token asks for. UNAUTHENTICATED (JC1335) does not tell what is wrong with the
  // token.
  struct Claim {
    std::string id;
    std::string secret_sha256;
    v1::TokenKind kind = v1::TOKEN_KIND_UNSPECIFIED;
    std::string subject;  // join: the node's name
  };
  absl::StatusOr<v1::Token> UseToken(const Claim& claim);

  // FAILED_PRECONDITION (JC1355) if the person it is for has been removed since.
  absl::Status AddCredential(const v1::Credential& credential);
  absl::StatusOr<std::optional<v1::Credential>> FindCredential(const std::string& serial);
  absl::StatusOr<std::vector<v1::Credential>> Credentials(
      const IdentityStore::CredentialPage& page);
  // Each certificate of a subject ("user/alice"), a page at a time; before an error, each that could be
  // read.
  absl::Status ForEachCredential(const std::string& subject,
                                 const std::function<void(const v1::Credential&)>& each);
  absl::StatusOr<std::vector<v1::Credential>> Revoke(const v1::RevokeCredentialsRequest& request,
                                                     const std::string& by);

  absl::StatusOr<v1::Project> SetProject(const v1::SetProjectRequest& request,
                                         const std::string& by);
  // The project must exist; the default one always does. Changes the named kinds alone.
  absl::StatusOr<v1::Project> SetQuota(const v1::SetQuotaRequest& request, const std::string& by);
  absl::Status RemoveProject(const std::string& name);

  // `sealed`: the value, encrypted.
  absl::StatusOr<v1::Secret> SetSecret(v1::Secret secret);
  // Of an owner (OwnerKey).
  absl::StatusOr<std::vector<v1::Secret>> Secrets(const std::string& owner_key);
  absl::Status RemoveSecret(const std::string& owner_key, const std::string& name);
  // All of them, or the error that names the first one that is missing.
  absl::StatusOr<std::vector<v1::Secret>> FindSecrets(const std::string& owner_key,
                                                      const std::vector<std::string>& names);

  // Forgets tokens a day after their end, and certificates when they cannot even be renewed.
  absl::Status ForgetExpired();

 private:
  // The answers to questions come from it. Replaced, never changed.
  struct View {
    std::map<std::string, v1::User, std::less<>> users;
    std::map<std::string, v1::Project, std::less<>> projects;
    std::unordered_set<std::string> revoked;
  };
  // With changing_ held, like all of these.
  // Removes from a project the members for whom `leaves` is true. It stays closed.
  absl::Status TakeOut(v1::Project project, const std::function<bool(const std::string&)>& leaves);
  absl::Status CheckIsStill(std::string_view principal, std::string_view user_id) const;
  void Publish(const std::function<void(View&)>& change);
  absl::StatusOr<std::vector<v1::Credential>> RevokeOne(
      const IdentityStore::Revocation& revocation);
  // The serials of a certificate's predecessors by renewal, and of everything renewed from these.
  absl::StatusOr<std::vector<std::string>> RenewalsAround(const std::string& serial);
  absl::Status CheckAdminRemains(const std::optional<v1::User>& after,
                                 const std::string& name) const;
  absl::Status CheckTokenRoom(int64_t now_ms);

  IdentityStore& store_;
  const common::Clock& clock_;
  std::atomic<std::shared_ptr<const View>> view_;
  std::mutex changing_;  // one change at a time
};

// The user of a principal: "alice" of "user:alice", "uid:1000" of itself; empty: none.
std::string_view UserOf(std::string_view principal);
// The reverse, for what a person typed: "alice" gives "user:alice"; a principal stays as it is.
std::string PrincipalOfUser(std::string_view user);

}  // namespace muster::coordinator
