// Who gets a certificate: tokens, names of nodes, renewal by the old key.
#include "coordinator/identity/enrolment.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/http/admission/request_pace.h"
#include "identity/enroll.h"

namespace muster::coordinator {
namespace {

using common::StrCat;
using identity::Kind;
using identity::PrivateKey;

constexpr int64_t kNowMs = 1'790'000'000'000;
constexpr int64_t kHourMs = 3'600'000;
constexpr int64_t kDayMs = 24 * kHourMs;

class Remembered : public EnrolmentRecords {
 public:
  absl::StatusOr<std::optional<v1::Token>> FindToken(const std::string& id) override {
    const auto found = tokens.find(id);
    return found == tokens.end() ? std::nullopt : std::optional(found->second);
  }
  absl::StatusOr<std::optional<v1::Token>> UseToken(const TokenUse& use) override {
    v1::Token& token = tokens.at(use.id);
    if (token.uses_left() == 0 || token.secret_sha256() != use.secret_sha256) return std::nullopt;
    token.set_uses_left(token.uses_left() - 1);
    return token;
  }
  std::optional<v1::User> FindUser(const std::string& name) override {
    const auto found = users.find(name);
    return found == users.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<v1::User> FindUserByOidc(const std::string& subject) override {
    for (const auto& [name, user] : users) {
      if (user.oidc_subject() == subject) return user;
    }
    return std::nullopt;
  }
  absl::StatusOr<size_t> CountValid(const std::string& subject, int64_t now_ms) override {
    size_t valid = 0;
    for (const auto& [serial, each] : credentials) {
      valid += each.subject() == subject && each.revoked_ms() == 0 && each.expires_ms() > now_ms;
    }
    return valid;
  }
  absl::StatusOr<std::optional<v1::Credential>> FindCredential(const std::string& serial) override {
    const auto found = credentials.find(serial);
    return found == credentials.end() ? std::nullopt : std::optional(found->second);
  }
  bool IsRevoked(const std::string& serial) override {
    return credentials.contains(serial) && credentials[serial].revoked_ms() != 0;
  }
  absl::Status Record(const v1::Credential& credential) override {
    if (revoked_meanwhile > 0) {
      for (auto& [serial, each] : credentials) each.set_revoked_ms(revoked_meanwhile);
    }
    credentials[credential.serial()] = credential;
    return absl::OkStatus();
  }
  absl::Status Revoke(const Replacement& replacement) override {
    for (auto& [serial, each] : credentials) {
      if (each.subject() == replacement.subject) each.set_revoked_ms(replacement.now_ms);
    }
    return absl::OkStatus();
  }

  std::map<std::string, v1::Token> tokens;
  std::map<std::string, v1::User> users;
  std::map<std::string, v1::Credential> credentials;
  // Before a new certificate is recorded, all older ones are revoked at this time; 0: no.
  int64_t revoked_meanwhile = 0;
};

class EnrolmentTest : public ::testing::Test {
 protected:
  std::string NewToken(v1::TokenKind kind, const std::string& subject, uint32_t uses = 1) {
    const identity::TokenText text{.authority = authority_.Fingerprint(),
                                   .id = identity::MakeTokenId(),
                                   .secret = identity::MakeTokenSecret()};
    v1::Token& token = records_.tokens[text.id];
    token.set_id(text.id);
    token.set_kind(kind);
    token.set_subject(subject);
    token.set_secret_sha256(identity::HashOfSecret(text.secret));
    token.set_expires_ms(kNowMs + kHourMs);
    token.set_uses_left(uses);
    return identity::FormatToken(text);
  }
  absl::StatusOr<v1::Enrolled> Join(const std::string& token, const std::string& node,
                                    const Enrolment::Asked& asked = {.now_ms = kNowMs}) {
    v1::JoinRequest request;
    request.set_token(token);
    request.set_node(node);
    request.set_csr_pem(identity::MakeRequest(key_));
    return enrolment_.Join(request, asked).answer;
  }
  absl::StatusOr<v1::Enrolled> SignIn(const std::string& token) {
    v1::EnrollPersonRequest request;
    request.set_token(token);
    request.set_csr_pem(identity::MakeRequest(key_));
    return enrolment_.SignIn(request, {.now_ms = kNowMs}).answer;
  }
  Enrolment::Outcome SignInAs(const std::string& subject) {
    return enrolment_.SignInAs({.issuer = "https://id.example",
                                .subject = subject,
                                .csr_pem = identity::MakeRequest(key_)},
                               {.now_ms = kNowMs});
  }
  v1::RenewRequest Renewal(const std::string& certificate, const PrivateKey& old, int64_t at_ms) {
    v1::RenewRequest request;
    request.set_certificate_pem(certificate);
    request.set_csr_pem(identity::MakeRequest(next_key_));
    request.set_at_ms(at_ms);
    request.set_signature(old.Sign(identity::RenewalText(at_ms, request.csr_pem())));
    return request;
  }
  absl::StatusOr<v1::Enrolled> Renew(const v1::RenewRequest& request, int64_t now_ms) {
    return enrolment_.Renew(request, {.now_ms = now_ms}).answer;
  }
  std::string Code(const absl::StatusOr<v1::Enrolled>& answer) {
    return answer.ok() ? "ok" : common::CodeOf(answer.status());
  }
  // Of a user of that name, who may sign in.
  void AddUser(const std::string& name) { records_.users[name].set_name(name); }

  const identity::Authority authority_ = identity::Authority::Create("lab", kNowMs - kDayMs);
  const PrivateKey key_ = PrivateKey::Generate();
  const PrivateKey next_key_ = PrivateKey::Generate();
  Remembered records_;
  Enrolment enrolment_{authority_, records_, {.endpoint = ":7700"}};
};

TEST_F(EnrolmentTest, ANodeGetsACertificateForItsKeyAndItIsRecorded) {
  const auto joined = Join(NewToken(v1::TOKEN_KIND_JOIN, ""), "node1");
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->endpoint(), ":7700");
  EXPECT_EQ(joined->ca_pem(), authority_.certificate_pem());
  const auto facts = authority_.FactsIfIssued(joined->certificate_pem());
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(identity::PathOf(facts->subject), "worker/node1");
  EXPECT_EQ(facts->key_sha256, identity::PublicKeyHash(key_.handle().get()));
  EXPECT_EQ(facts->not_after_ms, kNowMs + Enrolment::kWorkerLivesMs);
  EXPECT_EQ(records_.credentials.at(facts->serial).subject(), "worker/node1");
}

TEST_F(EnrolmentTest, ATokenIsGoodForItsUsesItsTimeItsKindAndItsCluster) {
  const std::string token = NewToken(v1::TOKEN_KIND_JOIN, "", 2);
  EXPECT_EQ(Code(Join(token, "node1")), "ok");
  EXPECT_EQ(Code(Join(token, "node2")), "ok");
  EXPECT_EQ(Code(Join(token, "node3")), "JC1335");
  const std::string late = NewToken(v1::TOKEN_KIND_JOIN, "");
  EXPECT_EQ(Code(Join(late, "node4", {.now_ms = kNowMs + kHourMs})), "JC1335");
  AddUser("alice");
  const std::string persons = NewToken(v1::TOKEN_KIND_SIGN_IN, "alice");
  EXPECT_EQ(Code(Join(persons, "node5")), "JC1335");
  EXPECT_EQ(Code(SignIn(NewToken(v1::TOKEN_KIND_JOIN, ""))), "JC1335");
  identity::TokenText forged = *identity::ParseToken(persons);
  forged.secret = identity::MakeTokenSecret();
  EXPECT_EQ(Code(SignIn(identity::FormatToken(forged))), "JC1335");
  forged = *identity::ParseToken(persons);
  forged.authority = std::string(64, '0');
  EXPECT_EQ(Code(SignIn(identity::FormatToken(forged))), "JC1335");
  EXPECT_EQ(Code(SignIn("not a token")), "JC1322");
}

TEST_F(EnrolmentTest, ARefusedRequestLeavesTheTokenAsItWas) {
  const std::string token = NewToken(v1::TOKEN_KIND_JOIN, "");
  EXPECT_EQ(Code(Join(token, "../node1")), "JC1321");
  EXPECT_EQ(Code(Join(token, "node1", {.now_ms = kNowMs, .is_known = true})), "JC1351");
  v1::JoinRequest broken;
  broken.set_token(token);
  broken.set_node("node1");
  broken.set_csr_pem("-----BEGIN CERTIFICATE REQUEST-----\n");
  EXPECT_EQ(Code(enrolment_.Join(broken, {.now_ms = kNowMs}).answer), "JC1353");
  EXPECT_EQ(Code(Join(token, "node1")), "ok");
}

TEST_F(EnrolmentTest, OnlyATokenForExactlyThatNodeTakesTheNameOfOneThatIsKnown) {
  EXPECT_EQ(Code(Join(NewToken(v1::TOKEN_KIND_JOIN, ""), "node1")), "ok");
  // Joined, though it never connected.
  const auto taken = Join(NewToken(v1::TOKEN_KIND_JOIN, ""), "node1");
  EXPECT_EQ(Code(taken), "JC1351");
  EXPECT_NE(taken.status().message().find("token create worker node1"), std::string::npos);
  EXPECT_EQ(Code(Join(NewToken(v1::TOKEN_KIND_JOIN, "node2"), "node1")), "JC1335");
  const std::string first = records_.credentials.begin()->first;
  const auto again =
      Join(NewToken(v1::TOKEN_KIND_JOIN, "node1"), "node1", {.now_ms = kNowMs, .is_known = true});
  ASSERT_EQ(Code(again), "ok");
  EXPECT_TRUE(records_.IsRevoked(first)) << "the older certificate ends with it";
  EXPECT_FALSE(records_.IsRevoked(identity::FactsOfPem(again->certificate_pem())->serial));
}

TEST_F(EnrolmentTest, APersonSignsInForHoursUnlessDisabledOrRemoved) {
  AddUser("alice");
  const auto signed_in = SignIn(NewToken(v1::TOKEN_KIND_SIGN_IN, "alice"));
  ASSERT_TRUE(signed_in.ok()) << signed_in.status();
  const auto facts = identity::FactsOfPem(signed_in->certificate_pem());
  EXPECT_EQ(identity::PathOf(facts->subject), "user/alice");
  EXPECT_EQ(facts->not_after_ms, kNowMs + Enrolment::kUserLivesMs);
  EXPECT_EQ(Code(SignIn(NewToken(v1::TOKEN_KIND_SIGN_IN, "bob"))), "JC1355");
  records_.users["alice"].set_disabled(true);
  EXPECT_EQ(Code(SignIn(NewToken(v1::TOKEN_KIND_SIGN_IN, "alice"))), "JC1355");
}

TEST_F(EnrolmentTest, AWorkerRenewsByItsOldKeyUntilAMonthAfterTheEnd) {
  const std::string old = Join(NewToken(v1::TOKEN_KIND_JOIN, ""), "node1")->certificate_pem();
  const int64_t end_ms = kNowMs + Enrolment::kWorkerLivesMs;
  for (const int64_t at_ms : {kNowMs, end_ms, end_ms + 30 * kDayMs - 1'000}) {
    const auto renewed = Renew(Renewal(old, key_, at_ms), at_ms);
    ASSERT_TRUE(renewed.ok()) << renewed.status();
    const auto facts = identity::FactsOfPem(renewed->certificate_pem());
    EXPECT_EQ(identity::PathOf(facts->subject), "worker/node1");
    EXPECT_EQ(facts->key_sha256, identity::PublicKeyHash(next_key_.handle().get()));
    EXPECT_EQ(facts->not_after_ms, at_ms + Enrolment::kWorkerLivesMs);
  }
  const int64_t late_ms = end_ms + 30 * kDayMs;
  EXPECT_EQ(Code(Renew(Renewal(old, key_, late_ms), late_ms)), "JC1352");
}

TEST_F(EnrolmentTest, NothingIsRenewedWithoutItsKeyOrAfterItWasRevoked) {
  const std::string old = Join(NewToken(v1::TOKEN_KIND_JOIN, ""), "node1")->certificate_pem();
  EXPECT_EQ(Code(Renew(Renewal(old, next_key_, kNowMs), kNowMs)), "JC1352") << "another key";
  v1::RenewRequest moved = Renewal(old, key_, kNowMs);
  moved.set_csr_pem(identity::MakeRequest(PrivateKey::Generate()));
  EXPECT_EQ(Code(Renew(moved, kNowMs)), "JC1352") << "signed for another key";
  const v1::RenewRequest recorded = Renewal(old, key_, kNowMs);
  EXPECT_EQ(Code(Renew(recorded, kNowMs + 6 * 60'000)), "JC1352") << "minutes ago";
  EXPECT_EQ(Code(Renew(Renewal(old, key_, INT64_MIN), kNowMs)), "JC1352");
  const identity::Authority other = identity::Authority::Create("lab", kNowMs);
  const std::string foreign = other
                                  .Issue({.key = key_.handle(),
                                          .subject = {.kind = Kind::kWorker, .name = "node1"},
                                          .now_ms = kNowMs,
                                          .lives_ms = kDayMs,
                                          .dns_names = {}})
                                  .pem;
  EXPECT_EQ(Code(Renew(Renewal(foreign, key_, kNowMs), kNowMs)), "JC1352") << "another authority";
  const std::string coordinators =
      authority_
          .Issue({.key = key_.handle(),
                  .subject = {.kind = Kind::kCoordinator, .name = "head"},
                  .now_ms = kNowMs,
                  .lives_ms = kDayMs,
                  .dns_names = {}})
          .pem;
  EXPECT_EQ(Code(Renew(Renewal(coordinators, key_, kNowMs), kNowMs)), "JC1352");
  ASSERT_TRUE(records_.Revoke({.subject = "worker/node1", .now_ms = kNowMs}).ok());
  EXPECT_EQ(Code(Renew(Renewal(old, key_, kNowMs), kNowMs)), "JC1352") << "revoked";
}

TEST_F(EnrolmentTest, ARevocationThatComesBetweenIsNotOutrun) {
  const std::string old = Join(NewToken(v1::TOKEN_KIND_JOIN, ""), "node1")->certificate_pem();
  records_.revoked_meanwhile = kNowMs;
  EXPECT_EQ(Code(Renew(Renewal(old, key_, kNowMs), kNowMs)), "JC1352");
}

TEST_F(EnrolmentTest, AMemberThatRenewsAllTheTimeCannotFillTheRecords) {
  const std::string old = Join(NewToken(v1::TOKEN_KIND_JOIN, ""), "node1")->certificate_pem();
  std::string last = "ok";
  for (size_t i = 0; i < Enrolment::kValidMost; ++i)
    last = Code(Renew(Renewal(old, key_, kNowMs), kNowMs));
  EXPECT_EQ(last, "JC1359");
  EXPECT_EQ(records_.credentials.size(), Enrolment::kValidMost);
  const int64_t later_ms = kNowMs + Enrolment::kWorkerLivesMs;
  EXPECT_EQ(Code(Renew(Renewal(old, key_, later_ms), later_ms)), "ok") << "the others have expired";
}

TEST_F(EnrolmentTest, WhoSignsInAllTheTimeCannotFillTheRecordsEither) {
  AddUser("alice");
  for (size_t i = 0; i < Enrolment::kValidMost; ++i)
    ASSERT_EQ(Code(SignIn(NewToken(v1::TOKEN_KIND_SIGN_IN, "alice"))), "ok") << i;
  const std::string token = NewToken(v1::TOKEN_KIND_SIGN_IN, "alice");
  const auto refused = SignIn(token);
  EXPECT_EQ(Code(refused), "JC1359");
  EXPECT_NE(refused.status().message().find("jobctl cert revoke user/alice"), std::string::npos);
  ASSERT_TRUE(records_.Revoke({.subject = "user/alice", .now_ms = kNowMs}).ok());
  EXPECT_EQ(Code(SignIn(token)), "ok") << "the token was not used up";
}

TEST_F(EnrolmentTest, ANodeThatJoinsAgainAndAgainHasOneValidCertificate) {
  const std::string token = NewToken(v1::TOKEN_KIND_JOIN, "node1", 100);
  for (size_t i = 0; i < Enrolment::kValidMost + 2; ++i)
    ASSERT_EQ(Code(Join(token, "node1", {.now_ms = kNowMs, .is_known = true})), "ok") << i;
  EXPECT_EQ(*records_.CountValid("worker/node1", kNowMs), 1u);
}

TEST_F(EnrolmentTest, WhatIsNotInTheListIsNotRenewed) {
  const std::string nodes = Join(NewToken(v1::TOKEN_KIND_JOIN, ""), "node1")->certificate_pem();
  AddUser("alice");
  const std::string hers = SignIn(NewToken(v1::TOKEN_KIND_SIGN_IN, "alice"))->certificate_pem();
  // As after a restore from a backup, or at another coordinator with the same authority.
  records_.credentials.clear();
  const auto node = Renew(Renewal(nodes, key_, kNowMs), kNowMs);
  EXPECT_EQ(Code(node), "JC1352");
  EXPECT_NE(node.status().message().find("jobctl token create worker node1"), std::string::npos);
  const auto alice = Renew(Renewal(hers, key_, kNowMs), kNowMs);
  EXPECT_EQ(Code(alice), "JC1352");
  EXPECT_NE(alice.status().message().find("jobctl token create person alice"), std::string::npos);
  EXPECT_TRUE(records_.credentials.empty());
}

TEST_F(EnrolmentTest, APersonRenewsOnlyBeforeTheEnd) {
  AddUser("alice");
  const std::string old = SignIn(NewToken(v1::TOKEN_KIND_SIGN_IN, "alice"))->certificate_pem();
  const int64_t end_ms = kNowMs + Enrolment::kUserLivesMs;
  EXPECT_EQ(Code(Renew(Renewal(old, key_, end_ms - 1'000), end_ms - 1'000)), "ok");
  EXPECT_EQ(Code(Renew(Renewal(old, key_, end_ms), end_ms)), "JC1352");
  records_.users["alice"].set_disabled(true);
  EXPECT_EQ(Code(Renew(Renewal(old, key_, kNowMs), kNowMs)), "JC1355");
}

TEST(RequestPace, ANetworkOfIpv6HasThePaceOfOneAddress) {
  http::RequestPace pace(
      {.all = {.per_second = 1, .saved_up = 100}, .address = {.per_second = 1, .saved_up = 3}});
  const http::RequestPace::Time now = std::chrono::steady_clock::now();
  int allowed = 0;
  for (int i = 0; i < 50; ++i) allowed += pace.Allows(StrCat("peer:[2001:db8::", i, "]"), now);
  EXPECT_EQ(allowed, 3);
  EXPECT_TRUE(pace.Allows("peer:[2001:db8:0:1::1]", now));
}

TEST(RequestPace, OneAddressCannotUseUpWhatTheOthersMayAsk) {
  http::RequestPace pace(
      {.all = {.per_second = 1, .saved_up = 10}, .address = {.per_second = 1, .saved_up = 3}});
  const http::RequestPace::Time now = std::chrono::steady_clock::now();
  int allowed = 0;
  for (int i = 0; i < 100; ++i) allowed += pace.Allows("peer:10.0.0.7", now) ? 1 : 0;
  EXPECT_EQ(allowed, 3);
  EXPECT_TRUE(pace.Allows("peer:10.0.0.8", now));
  EXPECT_TRUE(pace.Allows("peer:10.0.0.7", now + std::chrono::seconds(1)));
  for (int i = 0; i < 2'000; ++i) pace.Allows(StrCat("peer:", i), now);
  EXPECT_FALSE(pace.Allows("peer:another", now)) << "all together";
}

TEST_F(EnrolmentTest, WhomTheIdentityProviderNamesIsTheUserThatIsLinked) {
  AddUser("alice");
  AddUser("bob");
  records_.users["alice"].set_oidc_subject("https://id.example 7");
  records_.users["bob"].set_oidc_subject("https://other.example 8");
  const Enrolment::Outcome signed_in = SignInAs("7");
  ASSERT_TRUE(signed_in.answer.ok()) << signed_in.answer.status();
  EXPECT_EQ(signed_in.who, "oidc:https://id.example 7");
  EXPECT_EQ(signed_in.object, "user/alice");
  EXPECT_EQ(signed_in.answer->name(), "alice");
  ASSERT_EQ(records_.credentials.size(), 1u);
  EXPECT_EQ(records_.credentials.begin()->second.issued_for(), "oidc https://id.example");
  // The same number at another provider is another person.
  const Enrolment::Outcome stranger = SignInAs("8");
  EXPECT_EQ(Code(stranger.answer), "JC1366");
  EXPECT_EQ(stranger.who, "oidc:https://id.example 8");
  EXPECT_EQ(common::ProblemOf(stranger.answer.status()).fix,
            "an administrator runs: jobctl user set NAME --oidc \"https://id.example 8\"");
  records_.users["alice"].set_disabled(true);
  EXPECT_EQ(Code(SignInAs("7").answer), "JC1355");
  EXPECT_EQ(records_.credentials.size(), 1u);
}

absl::StatusOr<v1::CoordinatorKeys> KeysWith(Enrolment& enrolment, const std::string& token) {
  v1::CoordinatorJoinRequest request;
  request.set_token(token);
  request.set_host(std::string(300, 'h') + "\n");
  const auto outcome = enrolment.ShareKeys(request, {.now_ms = kNowMs});
  EXPECT_EQ(outcome.object, "coordinator/" + std::string(255, 'h'));
  EXPECT_TRUE(outcome.who.starts_with("token:"));
  return outcome.answer;
}

TEST_F(EnrolmentTest, AFurtherCoordinatorGetsTheKeysForItsTokenAndOnce) {
  Enrolment leader(authority_, records_, {.state = "etcd://e1:2379/lab", .secrets_key = "5ec2e7"});
  for (const v1::TokenKind kind : {v1::TOKEN_KIND_JOIN, v1::TOKEN_KIND_SIGN_IN})
    EXPECT_EQ(common::CodeOf(KeysWith(leader, NewToken(kind, "")).status()), "JC1335");
  const std::string token = NewToken(v1::TOKEN_KIND_COORDINATOR, "");
  EXPECT_EQ(common::CodeOf(Join(token, "node1").status()), "JC1335");
  EXPECT_EQ(common::CodeOf(SignIn(token).status()), "JC1335");
  const auto keys = KeysWith(leader, token);
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ(keys->ca_key_pem(), authority_.key().ToPem());
  EXPECT_EQ(keys->secrets_key(), "5ec2e7");
  EXPECT_EQ(keys->state(), "etcd://e1:2379/lab");
  EXPECT_EQ(common::CodeOf(KeysWith(leader, token).status()), "JC1335");
}

TEST_F(EnrolmentTest, ACoordinatorThatIsAloneGivesItsKeysToNoOneAndKeepsTheToken) {
  const std::string token = NewToken(v1::TOKEN_KIND_COORDINATOR, "");
  EXPECT_EQ(common::CodeOf(KeysWith(enrolment_, token).status()), "JC1631");
  Enrolment leader(authority_, records_, {.state = "etcd://e1:2379/lab", .secrets_key = "5ec2e7"});
  EXPECT_TRUE(KeysWith(leader, token).ok());
}

}  // namespace
}  // namespace muster::coordinator
