// What every store of identities promises.
#include "coordinator/stores/identity_store.h"

#include <gtest/gtest.h>

#include "tests/stores/engines.h"

namespace muster::coordinator {
namespace {

constexpr int64_t kNow = 1'000'000;

v1::Token TokenOf(const std::string& id, uint32_t uses, int64_t expires_ms) {
  v1::Token token;
  token.set_id(id);
  token.set_kind(v1::TOKEN_KIND_JOIN);
  token.set_secret_sha256("hash of " + id);
  token.set_uses_left(uses);
  token.set_expires_ms(expires_ms);
  return token;
}

v1::Credential CredentialOf(const std::string& serial, const std::string& subject,
                            int64_t expires_ms = kNow) {
  v1::Credential credential;
  credential.set_serial(serial);
  credential.set_subject(subject);
  credential.set_expires_ms(expires_ms);
  return credential;
}

v1::User UserOf(const std::string& name, v1::Role role) {
  v1::User user;
  user.set_name(name);
  user.set_role(role);
  return user;
}

v1::Secret SecretOf(const std::string& owner, const std::string& name) {
  v1::Secret secret;
  secret.set_owner(owner);
  secret.set_name(name);
  secret.set_sealed("sealed");
  return secret;
}

class IdentityStoreContract : public StoreContract {
 protected:
  void SetUp() override {
    engine().OpenJournal()->Stop().IgnoreError();  // creates the tables
    Reopen();
  }
  void Reopen() { store = engine().OpenIdentityStore(); }

  std::unique_ptr<IdentityStore> store;
};

TEST_P(IdentityStoreContract, UsersAreKeptReplacedAndRemoved) {
  ASSERT_TRUE(store->PutUser(UserOf("bob", v1::ROLE_USER)).ok());
  ASSERT_TRUE(store->PutUser(UserOf("alice", v1::ROLE_USER)).ok());
  ASSERT_TRUE(store->PutUser(UserOf("alice", v1::ROLE_ADMIN)).ok());
  Reopen();
  const auto users = store->Users();
  ASSERT_EQ(users->size(), 2u);
  EXPECT_EQ(users->front().name(), "alice");
  EXPECT_EQ(users->front().role(), v1::ROLE_ADMIN);
  EXPECT_TRUE(*store->RemoveUser("alice"));
  EXPECT_FALSE(*store->RemoveUser("alice"));
  EXPECT_EQ(store->Users()->size(), 1u);
}

TEST_P(IdentityStoreContract, ARemovedUserLeavesNoTokenAndNoSecretToASuccessor) {
  v1::Token token = TokenOf("t1", 1, kNow);
  token.set_kind(v1::TOKEN_KIND_SIGN_IN);
  token.set_subject("alice");
  v1::Token join = TokenOf("t2", 1, kNow);
  join.set_subject("alice");  // a node of that name
  ASSERT_TRUE(store->AddToken(token, UserOf("alice", v1::ROLE_USER)).ok());
  ASSERT_TRUE(store->AddToken(join, std::nullopt).ok());
  ASSERT_TRUE(store->PutSecret(SecretOf("user:alice", "wandb")).ok());
  ASSERT_TRUE(store->PutSecret(SecretOf("user:bob", "wandb")).ok());
  ASSERT_TRUE(*store->RemoveUser("alice"));
  ASSERT_EQ(store->Tokens()->size(), 1u);
  EXPECT_EQ(store->Tokens()->front().id(), "t2");
  EXPECT_TRUE(store->Secrets("user:alice")->empty());
  EXPECT_EQ(store->Secrets("user:bob")->size(), 1u);
}

TEST_P(IdentityStoreContract, APersonsSecretsAreNotAnothersOfThatName) {
  v1::User alice = UserOf("alice", v1::ROLE_USER);
  alice.set_id("0b");
  ASSERT_TRUE(store->PutUser(alice).ok());
  ASSERT_TRUE(store->PutSecret(SecretOf("user:alice", "wandb")).ok());
  v1::Secret hers = SecretOf("user:alice", "wandb");
  hers.set_owner_id("0b");
  hers.set_sealed("hers");
  ASSERT_TRUE(store->PutSecret(hers).ok());
  EXPECT_EQ((*store->FindSecret("user:alice#0b", "wandb"))->sealed(), "hers");
  EXPECT_EQ((*store->FindSecret("user:alice", "wandb"))->sealed(), "sealed");
  EXPECT_EQ(store->Secrets("user:alice#0b")->size(), 1u);
  ASSERT_TRUE(*store->RemoveUser("alice"));
  EXPECT_TRUE(store->Secrets("user:alice#0b")->empty());
  EXPECT_EQ(store->Secrets("user:alice")->size(), 1u) << "of one before ids";
}

TEST_P(IdentityStoreContract, ATokenIsUsedAsOftenAsItMayAndNotOnceMore) {
  ASSERT_TRUE(store->AddToken(TokenOf("t1", 2, kNow + 1), std::nullopt).ok());
  const IdentityStore::TokenUse use = {"t1", "hash of t1", kNow};
  EXPECT_EQ((*store->UseToken(use))->uses_left(), 1u);
  Reopen();
  EXPECT_EQ((*store->UseToken(use))->uses_left(), 0u);
  EXPECT_FALSE(store->UseToken(use)->has_value());
  EXPECT_EQ(store->Tokens()->front().used_ms(), kNow);
}

TEST_P(IdentityStoreContract, AWrongSecretOrALateUseTakesNothing) {
  ASSERT_TRUE(store->AddToken(TokenOf("t1", 1, kNow + 1), std::nullopt).ok());
  EXPECT_FALSE(store->UseToken({"t1", "hash of t2", kNow})->has_value());
  EXPECT_FALSE(store->UseToken({"t2", "hash of t1", kNow})->has_value());
  EXPECT_FALSE(store->UseToken({"t1", "hash of t1", kNow + 1})->has_value());
  EXPECT_EQ(store->Tokens()->front().uses_left(), 1u);
}

TEST_P(IdentityStoreContract, ATokenBringsItsUserUnlessThereIsOne) {
  ASSERT_TRUE(store->PutUser(UserOf("alice", v1::ROLE_ADMIN)).ok());
  ASSERT_TRUE(store->AddToken(TokenOf("t1", 1, kNow), UserOf("alice", v1::ROLE_VIEWER)).ok());
  ASSERT_TRUE(store->AddToken(TokenOf("t2", 1, kNow), UserOf("bob", v1::ROLE_VIEWER)).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(
      store->AddToken(TokenOf("t2", 1, kNow), UserOf("carol", v1::ROLE_USER))));
  const auto users = store->Users();
  ASSERT_EQ(users->size(), 2u);
  EXPECT_EQ(users->front().role(), v1::ROLE_ADMIN);
  EXPECT_TRUE(*store->RemoveToken("t1"));
  EXPECT_FALSE(*store->RemoveToken("t1"));
}

TEST_P(IdentityStoreContract, CertificatesAreRevokedOnceBySerialOrSubject) {
  for (const char* serial : {"01", "02", "03"}) {
    ASSERT_TRUE(store->AddCredential(CredentialOf(serial, "worker/node1")).ok());
  }
  ASSERT_TRUE(store->AddCredential(CredentialOf("04", "user/alice")).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(store->AddCredential(CredentialOf("04", "user/eve"))));
  const auto one =
      store->Revoke({.serial = "02", .at_ms = kNow, .by = "user:root", .reason = "lost"});
  ASSERT_EQ(one->size(), 1u);
  EXPECT_EQ(one->front().reason(), "lost");
  Reopen();
  EXPECT_EQ(store->Revoke({.subject = "worker/node1", .at_ms = kNow + 1})->size(), 2u);
  EXPECT_EQ(store->RevokedCredentials()->size(), 3u);
  EXPECT_EQ((*store->FindCredential("02"))->revoked_ms(), kNow);
  EXPECT_EQ((*store->FindCredential("04"))->revoked_ms(), 0);
  EXPECT_FALSE(store->FindCredential("05")->has_value());
  EXPECT_EQ(*store->CountCredentials(), 4u);
}

TEST_P(IdentityStoreContract, CertificatesAreListedPageByPage) {
  for (const char* serial : {"01", "02", "03", "04"}) {
    ASSERT_TRUE(
        store->AddCredential(CredentialOf(serial, serial < std::string("03") ? "a" : "b")).ok());
  }
  EXPECT_EQ(store->Credentials({.after = "01", .limit = 2})->front().serial(), "02");
  EXPECT_EQ(store->Credentials({.after = "01", .limit = 2})->size(), 2u);
  EXPECT_EQ(store->Credentials({.subject = "b", .limit = 9})->size(), 2u);
}

TEST_P(IdentityStoreContract, WhatHasExpiredOrIsUsedUpIsForgotten) {
  ASSERT_TRUE(store->AddToken(TokenOf("old", 1, kNow - 1), std::nullopt).ok());
  ASSERT_TRUE(store->AddToken(TokenOf("new", 1, kNow), std::nullopt).ok());
  ASSERT_TRUE(store->AddToken(TokenOf("used", 1, kNow + 9), std::nullopt).ok());
  ASSERT_TRUE(store->UseToken({"used", "hash of used", kNow - 5})->has_value());
  ASSERT_TRUE(store->AddCredential(CredentialOf("01", "user/alice", kNow - 1)).ok());
  ASSERT_TRUE(store->AddCredential(CredentialOf("02", "user/alice", kNow)).ok());
  ASSERT_TRUE(store->AddCredential(CredentialOf("03", "user/alice", kNow - 1)).ok());
  ASSERT_TRUE(store->Revoke({.serial = "03", .at_ms = kNow - 2}).ok());
  ASSERT_TRUE(store->PutUser(UserOf("alice", v1::ROLE_USER)).ok());
  EXPECT_EQ(*store->Forget({.tokens_ms = kNow, .credentials_ms = kNow}), 3u);
  ASSERT_EQ(store->Tokens()->size(), 1u);
  EXPECT_EQ(store->Tokens()->front().id(), "new");
  EXPECT_EQ(*store->CountCredentials(), 2u);  // a clock that jumps must not forgive a revoked one
  EXPECT_EQ(store->Users()->size(), 1u);
}

TEST_P(IdentityStoreContract, ProjectsAreKept) {
  v1::Project project;
  project.set_name("vision");
  project.add_members("alice");
  ASSERT_TRUE(store->PutProject(project).ok());
  Reopen();
  EXPECT_EQ(store->Projects()->front().members(0), "alice");
  EXPECT_TRUE(*store->RemoveProject("vision"));
  EXPECT_FALSE(*store->RemoveProject("vision"));
}

TEST_P(IdentityStoreContract, SecretsAreTheirOwnersAndListedWithoutValues) {
  ASSERT_TRUE(store->PutSecret(SecretOf("user:alice", "wandb")).ok());
  Reopen();
  EXPECT_EQ((*store->FindSecret("user:alice", "wandb"))->sealed(), "sealed");
  EXPECT_FALSE(store->FindSecret("user:bob", "wandb")->has_value());
  EXPECT_EQ(store->Secrets("user:alice")->front().sealed(), "");
  EXPECT_FALSE(*store->RemoveSecret("user:bob", "wandb"));
  EXPECT_TRUE(*store->RemoveSecret("user:alice", "wandb"));
  EXPECT_TRUE(store->Secrets("user:alice")->empty());
}

INSTANTIATE_TEST_SUITE_P(Stores, IdentityStoreContract, testing::ValuesIn(JournalKinds()),
                         NameOfKind);

}  // namespace
}  // namespace muster::coordinator
