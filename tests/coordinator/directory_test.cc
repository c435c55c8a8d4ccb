// The rules of the directory, over a store in memory.
#include "coordinator/identity/directory.h"

#include <gtest/gtest.h>

#include "common/problem.h"
#include "tests/stores/memory_identity_store.h"

namespace muster::coordinator {
namespace {

class HandClock final : public common::Clock {
 public:
  common::Now Read() const override { return {.wall_ms = wall_ms}; }
  int64_t wall_ms = 1'790'000'000'000;
};

class DirectoryTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(directory.Load().ok()); }

  absl::StatusOr<v1::User> Set(const std::string& name, std::optional<v1::Role> role,
                               std::optional<bool> disabled = std::nullopt) {
    v1::SetUserRequest request;
    request.set_name(name);
    if (role.has_value()) request.set_role(*role);
    if (disabled.has_value()) request.set_disabled(*disabled);
    return directory.SetUser(request, "uid:0");
  }
  absl::StatusOr<v1::Token> SignInToken(const std::string& user,
                                        v1::Role role = v1::ROLE_UNSPECIFIED) {
    v1::CreateTokenRequest request;
    request.set_kind(v1::TOKEN_KIND_SIGN_IN);
    request.set_subject(user);
    request.set_role(role);
    return directory.CreateToken(request, {.id = "id" + user, .secret_sha256 = "hash"}, "uid:0");
  }
  absl::StatusOr<v1::Token> JoinToken(const std::string& node, const std::string& id = "join") {
    v1::CreateTokenRequest request;
    request.set_kind(v1::TOKEN_KIND_JOIN);
    request.set_subject(node);
    return directory.CreateToken(request, {.id = id, .secret_sha256 = "hash"}, "uid:0");
  }
  absl::Status Use(const std::string& id, v1::TokenKind kind, const std::string& subject,
                   const std::string& hash = "hash") {
    return directory.UseToken({.id = id, .secret_sha256 = hash, .kind = kind, .subject = subject})
        .status();
  }
  void Certify(const std::string& serial, const std::string& subject,
               const std::string& issued_for = "") {
    v1::Credential credential;
    credential.set_issued_for(issued_for);
    credential.set_serial(serial);
    credential.set_subject(subject);
    if (subject.starts_with("user/")) {
      const std::string name = subject.substr(subject.find('/') + 1);
      if (!directory.FindUser(name).has_value()) {
        ASSERT_TRUE(Set(name, v1::ROLE_USER).ok());
      }
      credential.set_user_id(directory.FindUser(name)->id());
    }
    credential.set_expires_ms(clock.wall_ms + 1'000);
    ASSERT_TRUE(directory.AddCredential(credential).ok());
  }

  HandClock clock;
  const std::shared_ptr<MemoryIdentities> kept = std::make_shared<MemoryIdentities>();
  MemoryIdentityStore store{kept};
  Directory directory{store, clock};
};

TEST_F(DirectoryTest, AUserIsFoundAsSetAlsoAfterARestart) {
  ASSERT_TRUE(Set("alice", v1::ROLE_OPERATOR).ok());
  ASSERT_TRUE(Set("alice", std::nullopt, true).ok());
  EXPECT_EQ(directory.FindUser("alice")->role(), v1::ROLE_OPERATOR);
  EXPECT_TRUE(directory.FindUser("alice")->disabled());
  Directory next(store, clock);
  ASSERT_TRUE(next.Load().ok());
  EXPECT_EQ(next.FindUser("alice")->created_by(), "uid:0");
  EXPECT_FALSE(next.FindUser("bob").has_value());
}

TEST_F(DirectoryTest, OnlyNamesAndLocalAccountsAreUsers) {
  for (const char* good : {"alice", "alice@example.org", "uid:1000"}) {
    EXPECT_TRUE(Set(good, v1::ROLE_USER).ok()) << good;
  }
  for (const char* bad : {"", "-a", "a b", "../x", "uid:", "uid:x", "uid:99999999999", "user:a"}) {
    EXPECT_EQ(common::CodeOf(Set(bad, v1::ROLE_USER).status()), "JC1321") << bad;
  }
  EXPECT_EQ(common::CodeOf(Set("eve", v1::ROLE_WORKER).status()), "JC1331");
}

TEST_F(DirectoryTest, TheLastAdministratorStays) {
  ASSERT_TRUE(Set("alice", v1::ROLE_ADMIN).ok());
  EXPECT_EQ(common::CodeOf(Set("alice", v1::ROLE_USER).status()), "JC1333");
  EXPECT_EQ(common::CodeOf(Set("alice", std::nullopt, true).status()), "JC1333");
  EXPECT_EQ(common::CodeOf(directory.RemoveUser("alice", "uid:0").status()), "JC1333");
  ASSERT_TRUE(Set("bob", v1::ROLE_ADMIN).ok());
  EXPECT_TRUE(Set("alice", v1::ROLE_USER).ok());
  EXPECT_EQ(common::CodeOf(directory.RemoveUser("bob", "uid:0").status()), "JC1333");
}

TEST_F(DirectoryTest, ARemovedUsersCertificatesAreRevoked) {
  ASSERT_TRUE(Set("alice", v1::ROLE_USER).ok());
  Certify("01", "user/alice");
  Certify("02", "user/bob");
  EXPECT_EQ(directory.RemoveUser("alice", "uid:0")->size(), 1u);
  EXPECT_TRUE(directory.IsRevoked("01"));
  EXPECT_FALSE(directory.IsRevoked("02"));
  EXPECT_FALSE(directory.FindUser("alice").has_value());
  EXPECT_EQ(common::CodeOf(directory.RemoveUser("alice", "uid:0").status()), "JC1332");
}

TEST_F(DirectoryTest, WhoeverIsGivenANameIsAnotherPerson) {
  const std::string id = Set("alice", v1::ROLE_USER)->id();
  EXPECT_EQ(Set("alice", v1::ROLE_OPERATOR)->id(), id) << "a change makes no other person";
  EXPECT_EQ(Set("uid:1000", v1::ROLE_USER)->id(), "") << "the machine's";
  ASSERT_TRUE(SignInToken("alice").ok());
  v1::SetProjectRequest project;
  project.set_name("vision");
  project.add_add_members("alice");
  ASSERT_TRUE(directory.SetProject(project, "uid:0").ok());
  EXPECT_FALSE(directory.IsGone("user:alice", id));
  ASSERT_TRUE(directory.RemoveUser("alice", "uid:0").ok());
  EXPECT_TRUE(directory.IsGone("user:alice", id));
  EXPECT_TRUE(directory.Projects().back().members().empty());

  const auto token = SignInToken("alice");
  ASSERT_TRUE(token.ok());
  const std::string next = directory.FindUser("alice")->id();
  EXPECT_NE(next, id);
  EXPECT_EQ(next.size(), 16u);
  EXPECT_TRUE(directory.IsGone("user:alice", id));
  EXPECT_FALSE(directory.CheckProject("vision", "user:alice").ok());
  // What was under way for the earlier one ends there.
  v1::Credential late;
  late.set_serial("0c");
  late.set_subject("user/alice");
  late.set_user_id(id);
  EXPECT_EQ(common::CodeOf(directory.AddCredential(late)), "JC1355");
  v1::Secret secret;
  secret.set_owner("user:alice");
  secret.set_owner_id(id);
  secret.set_name("wandb");
  EXPECT_EQ(common::CodeOf(directory.SetSecret(secret).status()), "JC1355");
}

TEST_F(DirectoryTest, MembersOfAnOlderReleaseAreThePeopleWhoHaveTheNamesNow) {
  v1::User alice;  // as 0.2.0 recorded her
  alice.set_name("alice");
  ASSERT_TRUE(store.PutUser(alice).ok());
  v1::Project older;
  older.set_name("older");
  for (const char* name : {"alice", "bob", "uid:7"}) older.add_members(name);
  ASSERT_TRUE(store.PutProject(older).ok());
  older.set_name("left");
  older.clear_members();
  older.add_members("bob");
  ASSERT_TRUE(store.PutProject(older).ok());
  ASSERT_TRUE(directory.Load().ok());
  for (const char* who : {"user:alice", "uid:7"})
    EXPECT_TRUE(directory.CheckProject("older", who).ok()) << who;
  EXPECT_FALSE(directory.IsGone("user:alice", ""));
  // He was removed while 0.2.0 ran, which left him in its projects.
  ASSERT_TRUE(Set("bob", v1::ROLE_USER).ok());
  for (const char* project : {"older", "left"})
    EXPECT_FALSE(directory.CheckProject(project, "user:bob").ok()) << project;
  // From now on a name may be named before its person is there.
  v1::SetProjectRequest request;
  request.set_name("older");
  request.add_add_members("carol");
  ASSERT_TRUE(directory.SetProject(request, "uid:0").ok());
  ASSERT_TRUE(directory.Load().ok());
  EXPECT_TRUE(directory.CheckProject("older", "user:carol").ok());
}

TEST_F(DirectoryTest, ASignInTokenAddsItsUserAndWorksOnce) {
  ASSERT_TRUE(SignInToken("alice", v1::ROLE_OPERATOR).ok());
  EXPECT_EQ(directory.FindUser("alice")->role(), v1::ROLE_OPERATOR);
  EXPECT_TRUE(Use("idalice", v1::TOKEN_KIND_SIGN_IN, "").ok());
  EXPECT_EQ(common::CodeOf(Use("idalice", v1::TOKEN_KIND_SIGN_IN, "")), "JC1335");
}

TEST_F(DirectoryTest, ATokenIsNotTheWayToChangeAUser) {
  ASSERT_TRUE(Set("alice", v1::ROLE_USER).ok());
  EXPECT_EQ(common::CodeOf(SignInToken("alice", v1::ROLE_ADMIN).status()), "JC1331");
  ASSERT_TRUE(Set("alice", std::nullopt, true).ok());
  EXPECT_EQ(common::CodeOf(SignInToken("alice").status()), "JC1331");
}

TEST_F(DirectoryTest, ATokenIsForItsPurposeAndSubjectOnly) {
  ASSERT_TRUE(JoinToken("node1").ok());
  EXPECT_EQ(common::CodeOf(Use("join", v1::TOKEN_KIND_SIGN_IN, "")), "JC1335");
  EXPECT_EQ(common::CodeOf(Use("join", v1::TOKEN_KIND_JOIN, "node2")), "JC1335");
  EXPECT_EQ(common::CodeOf(Use("join", v1::TOKEN_KIND_JOIN, "node1", "guess")), "JC1335");
  EXPECT_TRUE(Use("join", v1::TOKEN_KIND_JOIN, "node1").ok());
}

TEST_F(DirectoryTest, AnExpiredOrRevokedTokenIsRefused) {
  ASSERT_TRUE(JoinToken("").ok());
  ASSERT_TRUE(JoinToken("", "other").ok());
  ASSERT_TRUE(directory.RevokeToken("other").ok());
  EXPECT_EQ(common::CodeOf(Use("other", v1::TOKEN_KIND_JOIN, "node1")), "JC1335");
  clock.wall_ms += Directory::kTokenLivesMs;
  EXPECT_EQ(common::CodeOf(Use("join", v1::TOKEN_KIND_JOIN, "node1")), "JC1335");
}

TEST_F(DirectoryTest, ADisabledUsersTokenIsRefused) {
  ASSERT_TRUE(SignInToken("alice").ok());
  ASSERT_TRUE(Set("alice", std::nullopt, true).ok());
  EXPECT_EQ(common::CodeOf(Use("idalice", v1::TOKEN_KIND_SIGN_IN, "")), "JC1335");
}

TEST_F(DirectoryTest, UnusedTokensAreBoundedAndEndedOnesDoNotCount) {
  for (size_t i = 0; i < Directory::kTokensMax; ++i) {
    ASSERT_TRUE(JoinToken("", "t" + std::to_string(i)).ok());
  }
  EXPECT_EQ(common::CodeOf(JoinToken("", "more").status()), "JC1334");
  ASSERT_TRUE(Use("t0", v1::TOKEN_KIND_JOIN, "node1").ok());
  EXPECT_TRUE(JoinToken("", "more").ok());
}

TEST_F(DirectoryTest, WhatHasEndedIsForgottenButNoRevocationIs) {
  ASSERT_TRUE(JoinToken("").ok());
  Certify("01", "worker/node1");
  Certify("02", "worker/node1");
  v1::RevokeCredentialsRequest request;
  request.set_serial("02");
  ASSERT_EQ(directory.Revoke(request, "uid:0")->size(), 1u);
  clock.wall_ms += Directory::kRenewableMs + 2'000;
  ASSERT_TRUE(directory.ForgetExpired().ok());
  EXPECT_TRUE(directory.Tokens()->empty());
  EXPECT_FALSE(directory.FindCredential("01")->has_value());
  EXPECT_TRUE(directory.FindCredential("02")->has_value());
  EXPECT_TRUE(directory.IsRevoked("02"));
}

// Who had a key that was stolen may have renewed with it before it was revoked, and it may have been stolen
// before its owner renewed it.
TEST_F(DirectoryTest, WhatACertificateWasRenewedFromAndWhatWasRenewedFromItIsRevokedWithIt) {
  Certify("01", "user/alice");
  Certify("02", "user/alice", "renewal of 01");
  Certify("03", "user/alice", "renewal of 02");
  Certify("04", "user/alice", "renewal of 01");
  Certify("05", "user/alice");
  Certify("06", "user/bob", "renewal of 05");  // never made so: of another subject
  v1::RevokeCredentialsRequest request;
  request.set_serial("02");
  ASSERT_EQ(directory.Revoke(request, "uid:0")->size(), 4u);
  for (const char* serial : {"01", "02", "03", "04"}) EXPECT_TRUE(directory.IsRevoked(serial));
  // An attempt that broke off is made whole by the next.
  Certify("07", "user/alice", "renewal of 03");
  ASSERT_EQ(directory.Revoke(request, "uid:0")->size(), 1u);
  EXPECT_TRUE(directory.IsRevoked("07"));
  EXPECT_FALSE(directory.IsRevoked("05"));
  EXPECT_FALSE(directory.IsRevoked("06"));
}

TEST_F(DirectoryTest, RevokingNamesOneThingThatExists) {
  v1::RevokeCredentialsRequest request;
  EXPECT_EQ(common::CodeOf(directory.Revoke(request, "uid:0").status()), "JC1331");
  request.set_serial("77");
  EXPECT_EQ(common::CodeOf(directory.Revoke(request, "uid:0").status()), "JC1332");
}

TEST_F(DirectoryTest, OnlyMembersUseAProjectUnlessItIsOpen) {
  v1::SetProjectRequest request;
  request.set_name("vision");
  ASSERT_TRUE(directory.SetProject(request, "uid:0").ok());
  EXPECT_EQ(common::CodeOf(directory.CheckProject("vision", "user:bob")), "JC1338")
      << "it has no members yet";
  request.add_add_members("alice");
  request.add_add_members("uid:1000");
  ASSERT_TRUE(directory.SetProject(request, "uid:0").ok());
  EXPECT_TRUE(directory.CheckProject("vision", "user:alice").ok());
  EXPECT_TRUE(directory.CheckProject("vision", "uid:1000").ok());
  EXPECT_EQ(common::CodeOf(directory.CheckProject("vision", "user:bob")), "JC1338");
  EXPECT_EQ(common::CodeOf(directory.CheckProject("vision", "peer:10.0.0.7")), "JC1338");
  EXPECT_EQ(common::CodeOf(directory.CheckProject("audio", "user:alice")), "JC1332");
  EXPECT_TRUE(directory.CheckProject("", "user:bob").ok());
  EXPECT_TRUE(directory.CheckProject("default", "user:bob").ok());
  request.set_open(true);
  EXPECT_EQ(common::CodeOf(directory.SetProject(request, "uid:0").status()), "JC1331");
  EXPECT_FALSE(directory.CheckProject("vision", "user:bob").ok()) << "it has members";
  v1::SetProjectRequest open;
  open.set_name("audio");
  open.set_open(true);
  ASSERT_TRUE(directory.SetProject(open, "uid:0").ok());
  EXPECT_TRUE(directory.CheckProject("audio", "user:bob").ok());
  open.set_open(false);
  ASSERT_TRUE(directory.SetProject(open, "uid:0").ok());
  EXPECT_FALSE(directory.CheckProject("audio", "user:bob").ok());
}

TEST_F(DirectoryTest, RemovingTheLastMemberDoesNotOpenAProject) {
  v1::Project older;  // of 0.2.0, which did not close them
  older.set_name("older");
  older.add_members("alice");
  ASSERT_TRUE(store.PutProject(older).ok());
  ASSERT_TRUE(Set("alice", v1::ROLE_USER).ok());
  ASSERT_TRUE(directory.Load().ok());
  v1::SetProjectRequest request;
  for (const char* name : {"vision", "default"}) {
    request.set_name(name);
    request.add_add_members("alice");
    ASSERT_TRUE(directory.SetProject(request, "uid:0").ok());
  }
  for (const char* name : {"vision", "default", "older"}) {
    EXPECT_TRUE(directory.CheckProject(name, "user:alice").ok());
    v1::SetProjectRequest remove;
    remove.set_name(name);
    remove.add_remove_members("alice");
    EXPECT_TRUE(directory.SetProject(remove, "uid:0").ok());
    for (const char* user : {"user:alice", "user:bob"})
      EXPECT_FALSE(directory.CheckProject(name, user).ok()) << name;
  }
  EXPECT_EQ(common::CodeOf(directory.RemoveProject("default")), "JC1331");
  EXPECT_TRUE(directory.RemoveProject("vision").ok());
}

TEST_F(DirectoryTest, AProjectOfAnOlderReleaseWithoutMembersStaysOpen) {
  v1::Project older;
  older.set_name("older");
  ASSERT_TRUE(store.PutProject(older).ok());
  ASSERT_TRUE(directory.Load().ok());
  EXPECT_TRUE(directory.CheckProject("older", "user:bob").ok());
  v1::SetProjectRequest described;
  described.set_name("older");
  described.set_description("for all");
  ASSERT_TRUE(directory.SetProject(described, "uid:0").ok());
  EXPECT_TRUE(directory.CheckProject("older", "user:bob").ok());
}

TEST_F(DirectoryTest, AMissingSecretIsNamed) {
  v1::Secret secret;
  secret.set_owner("uid:1000");
  secret.set_name("wandb");
  secret.set_sealed("sealed");
  ASSERT_TRUE(directory.SetSecret(secret).ok());
  EXPECT_EQ(directory.FindSecrets("uid:1000", {"wandb"})->front().sealed(), "sealed");
  const absl::Status missing = directory.FindSecrets("user:bob", {"wandb"}).status();
  EXPECT_EQ(common::CodeOf(missing), "JC1339");
  EXPECT_NE(missing.message().find("user:bob has no secret wandb"), absl::string_view::npos);
}

}  // namespace
}  // namespace muster::coordinator
