#include "identity/certificate.h"

#include <gtest/gtest.h>

#include "common/hash/hex.h"
#include "common/problem.h"

namespace muster::identity {
namespace {

constexpr int64_t kNow = 1'790'000'000'000;
constexpr int64_t kDayMs = 86'400'000;

Authority::Order OrderFor(Kind kind, const std::string& name, const PrivateKey& key) {
  return {.key = key.handle(),
          .subject = {kind, name},
          .now_ms = kNow,
          .lives_ms = kDayMs,
          .dns_names = {}};
}

TEST(NamesTest, AUriIsReadBackAndNothingElseIs) {
  const Subject node{Kind::kWorker, "node-1.lab"};
  EXPECT_EQ(UriOf("lab", node), "spiffe://lab/worker/node-1.lab");
  EXPECT_EQ(PrincipalOf(node), "worker:node-1.lab");
  const auto read = ParseUri("spiffe://lab/worker/node-1.lab");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->cluster, "lab");
  EXPECT_EQ(read->subject, node);
  for (const char* wrong :
       {"", "spiffe://", "spiffe://lab", "spiffe://lab/", "spiffe://lab/worker",
        "spiffe://lab/worker/", "spiffe://lab/rank/1", "spiffe://lab/worker/a/b",
        "spiffe://lab/worker/..", "https://lab/user/a", "spiffe:///user/a", "spiffe://lab/user/a b",
        "spiffe://lab/user/-a"}) {
    EXPECT_FALSE(ParseUri(wrong).ok()) << wrong;
  }
}

TEST(NamesTest, AWrongNameIsNamed) {
  EXPECT_TRUE(CheckName("a user", "alice@example.org").ok());
  const absl::Status refused = CheckName("a user", "../root");
  EXPECT_EQ(common::CodeOf(refused), "JC1321");
  EXPECT_NE(refused.message().find("\"../root\" cannot be the name of a user"),
            absl::string_view::npos);
  EXPECT_FALSE(IsName(std::string(64, 'a')));
  EXPECT_TRUE(IsName(std::string(63, 'a')));
}

TEST(CertificateTest, TheLongestNamesThatAreAllowedGetACertificate) {
  const std::string longest(63, 'a');
  const Authority authority = Authority::Create(longest, kNow);
  const PrivateKey key = PrivateKey::Generate();
  for (const Kind kind : {Kind::kWorker, Kind::kUser, Kind::kCoordinator}) {
    const auto facts = FactsOfPem(authority.Issue(OrderFor(kind, longest, key)).pem);
    ASSERT_TRUE(facts.ok()) << facts.status();
    EXPECT_EQ(facts->subject, (Subject{kind, longest}));
    EXPECT_EQ(facts->cluster, longest);
  }
}

TEST(CertificateTest, WhatTheAuthorityIssuesSaysWhoForAndUntilWhen) {
  const Authority authority = Authority::Create("lab", kNow);
  const PrivateKey key = PrivateKey::Generate();
  const Authority::Issued issued = authority.Issue(OrderFor(Kind::kUser, "alice", key));
  const auto facts = FactsOfPem(issued.pem);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->cluster, "lab");
  EXPECT_EQ(facts->subject, (Subject{Kind::kUser, "alice"}));
  EXPECT_EQ(facts->not_after_ms, kNow + kDayMs);
  EXPECT_EQ(facts->not_before_ms, kNow - Authority::kBackdatedMs);
  EXPECT_EQ(facts->serial, issued.facts.serial);
  EXPECT_EQ(facts->serial.size(), 32u);
  EXPECT_EQ(facts->key_sha256, PublicKeyHash(key.handle().get()));
  EXPECT_TRUE(authority.FactsIfIssued(issued.pem).ok());
}

TEST(CertificateTest, AnotherAuthoritysCertificateIsNotOurs) {
  const Authority ours = Authority::Create("lab", kNow);
  const Authority theirs = Authority::Create("lab", kNow);  // of the same name
  const auto pem = theirs.Issue(OrderFor(Kind::kUser, "alice", PrivateKey::Generate())).pem;
  EXPECT_EQ(ours.FactsIfIssued(pem).status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_FALSE(ours.FactsIfIssued(ours.certificate_pem()).ok()) << "an authority is not a leaf";
}

TEST(CertificateTest, WhatIsReadFromAForeignTextIsWrittenAlone) {
  const std::string ours = Authority::Create("lab", kNow).certificate_pem();
  const std::string theirs = Authority::Create("lab", kNow).certificate_pem();
  // A label of old, and line ends of Windows: OpenSSL reads both.
  std::string first;
  for (const char c : ours) first += c == '\n' ? std::string("\r\n") : std::string(1, c);
  for (size_t at = 0; (at = first.find(" CERTIFICATE", at)) != std::string::npos; at += 17)
    first.insert(at, " X509");
  const auto read = ReadCertificate(first + theirs);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(PemOf(*read), ours);
  EXPECT_EQ(*Fingerprint(first + theirs), *Fingerprint(ours));
}

TEST(CertificateTest, AnAuthorityIsLoadedWithItsOwnKeyAlone) {
  const Authority made = Authority::Create("lab", kNow);
  const auto loaded = Authority::Load(made.certificate_pem(), made.key().ToPem());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->cluster(), "lab");
  EXPECT_EQ(loaded->Fingerprint(), made.Fingerprint());
  EXPECT_FALSE(Authority::Load(made.certificate_pem(), PrivateKey::Generate().ToPem()).ok());
  const auto leaf = made.Issue(OrderFor(Kind::kCoordinator, "head", made.key()));
  EXPECT_FALSE(Authority::Load(leaf.pem, made.key().ToPem()).ok()) << "a leaf is not an authority";
}

TEST(CertificateTest, ARequestProvesItsKey) {
  const PrivateKey key = PrivateKey::Generate();
  std::string request = MakeRequest(key);
  const auto read = ReadRequest(request);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(PublicKeyHash(read->get()), PublicKeyHash(key.handle().get()));
  for (size_t i = 40; i < request.size() - 40; i += 7) {
    std::string broken = request;
    broken[i] = broken[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(ReadRequest(broken).ok()) << i;
  }
  EXPECT_FALSE(ReadRequest("").ok());
  EXPECT_FALSE(ReadRequest(std::string(1 << 20, 'A')).ok());
}

TEST(KeysTest, ASignatureIsOfOneKeyAndOneText) {
  const PrivateKey key = PrivateKey::Generate();
  const std::string signature = key.Sign("muster renew\n1\n");
  EXPECT_TRUE(IsSignedBy(key.handle().get(), "muster renew\n1\n", signature));
  EXPECT_FALSE(IsSignedBy(key.handle().get(), "muster renew\n2\n", signature));
  EXPECT_FALSE(IsSignedBy(PrivateKey::Generate().handle().get(), "muster renew\n1\n", signature));
  EXPECT_FALSE(IsSignedBy(key.handle().get(), "muster renew\n1\n", ""));
}

}  // namespace
}  // namespace muster::identity
