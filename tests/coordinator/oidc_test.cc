// Signing in at an identity provider: what is accepted of its answers and tokens, which sign-ins may
// wait, and what the provider is asked.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/oidc/answers.h"
#include "coordinator/oidc/client.h"
#include "coordinator/oidc/id_token.h"
#include "coordinator/oidc/keys.h"
#include "coordinator/oidc/pending.h"
#include "coordinator/oidc/provider.h"
#include "tests/coordinator/temp_dir.h"

namespace muster::coordinator::oidc {
namespace {

using common::StrCat;
using Verdict = PendingSignIns::Verdict;

constexpr int64_t kNowS = 1'790'000'000;
constexpr char kIssuer[] = "https://id.example/realm";

std::string Base64(std::string_view bytes) {
  std::string text;
  absl::WebSafeBase64Escape(common::ToAbsl(bytes), &text);
  while (text.ends_with('=')) text.pop_back();
  return text;
}

std::string BytesOf(const BIGNUM* number, int size) {
  std::string bytes(static_cast<size_t>(size), '\0');
  BN_bn2binpad(number, reinterpret_cast<unsigned char*>(bytes.data()), size);
  return bytes;
}

// A key of a provider, which signs as JWS wants it.
class Signer {
 public:
  explicit Signer(bool is_rsa) : is_rsa_(is_rsa) {
    key_.reset(is_rsa ? EVP_RSA_gen(2048) : EVP_EC_gen("P-256"), EVP_PKEY_free);
  }
  std::string Jwk(const std::string& id) const {
    const auto [first, second] =
        is_rsa_ ? std::pair(OSSL_PKEY_PARAM_RSA_N, OSSL_PKEY_PARAM_RSA_E)
                : std::pair(OSSL_PKEY_PARAM_EC_PUB_X, OSSL_PKEY_PARAM_EC_PUB_Y);
    return StrCat("{\"kid\":\"", id, "\",",
                  is_rsa_ ? "\"kty\":\"RSA\",\"n\":\"" : R"("kty":"EC","crv":"P-256","x":")",
                  Number(first), is_rsa_ ? "\",\"e\":\"" : "\",\"y\":\"", Number(second), "\"}");
  }
  std::string Sign(const std::string& head, const std::string& claims) const {
    const std::string text = StrCat(Base64(head), ".", Base64(claims));
    return StrCat(text, ".", Base64(Signature(text)));
  }
  std::string alg() const { return is_rsa_ ? "RS256" : "ES256"; }

 private:
  std::string Number(const char* name) const {
    BIGNUM* number = nullptr;
    EXPECT_EQ(EVP_PKEY_get_bn_param(key_.get(), name, &number), 1);
    const std::string text = Base64(BytesOf(number, is_rsa_ ? BN_num_bytes(number) : 32));
    BN_free(number);
    return text;
  }
  std::string Signature(const std::string& text) const {
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                          EVP_MD_CTX_free);
    unsigned char bytes[512];
    size_t size = sizeof bytes;
    EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key_.get());
    EXPECT_EQ(EVP_DigestSign(context.get(), bytes, &size,
                             reinterpret_cast<const unsigned char*>(text.data()), text.size()),
              1);
    if (is_rsa_) return {reinterpret_cast<const char*>(bytes), size};
    const unsigned char* at = bytes;
    ECDSA_SIG* signature = d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(size));
    const std::string raw =
        BytesOf(ECDSA_SIG_get0_r(signature), 32) + BytesOf(ECDSA_SIG_get0_s(signature), 32);
    ECDSA_SIG_free(signature);
    return raw;
  }

  const bool is_rsa_;
  std::shared_ptr<EVP_PKEY> key_;
};

const Signer& Rsa() {
  static const auto* const signer = new Signer(true);
  return *signer;
}
const Signer& P256() {
  static const auto* const signer = new Signer(false);
  return *signer;
}

std::string KeySet(const std::vector<std::string>& keys) {
  std::string text;
  for (const std::string& key : keys) common::StrAppend(&text, text.empty() ? "" : ",", key);
  return StrCat("{\"keys\":[", text, "]}");
}

std::vector<Key> KeysOf(const std::string& json) {
  const auto written = ReadWrittenKeys(json);
  EXPECT_TRUE(written.ok()) << written.status();
  return written.ok() ? MakeKeys(*written) : std::vector<Key>{};
}

// Claims that are accepted, with what a test changes: a later field of the same name counts.
std::string ClaimsWith(const std::string& change) {
  return StrCat(R"({"iss":")", kIssuer, R"(","sub":"24.aef|1","aud":"muster","exp":)", kNowS + 300,
                ",\"iat\":", kNowS, change.empty() ? "" : ",", change, "}");
}

// "ok", "no key", or why it is refused.
std::string Check(const std::string& token, const std::vector<Key>& keys) {
  const auto subject = CheckIdToken(
      token, keys, {.issuer = kIssuer, .client_id = "muster", .now_ms = kNowS * 1'000});
  if (subject.ok()) return *subject == "24.aef|1" ? "ok" : *subject;
  return absl::IsNotFound(subject.status()) ? "no key" : std::string(subject.status().message());
}

std::string HeadOf(const Signer& signer, const std::string& id = "k1") {
  return StrCat(R"({"typ":"JWT","alg":")", signer.alg(), R"(","kid":")", id, "\"}");
}

TEST(OidcIdToken, ThoseOfBothAlgorithmsAreAcceptedWithTheKeyThatTheyName) {
  const std::vector<Key> keys = KeysOf(
      KeySet({Rsa().Jwk("k0"), P256().Jwk("k1"), Rsa().Jwk("k2"), R"({"kty":"OKP","x":"AA"})"}));
  ASSERT_EQ(keys.size(), 3u);
  EXPECT_EQ(Check(P256().Sign(HeadOf(P256()), ClaimsWith("")), keys), "ok");
  EXPECT_EQ(Check(Rsa().Sign(HeadOf(Rsa(), "k2"), ClaimsWith("")), keys), "ok");
  EXPECT_EQ(Check(P256().Sign(R"({"alg":"ES256"})", ClaimsWith("")), keys), "ok") << "its only key";
  EXPECT_NE(Check(Rsa().Sign(R"({"alg":"RS256"})", ClaimsWith("")), keys).find("several"),
            std::string::npos);
  EXPECT_EQ(Check(Rsa().Sign(HeadOf(Rsa(), "k3"), ClaimsWith("")), keys), "no key");
  EXPECT_EQ(Check(P256().Sign(HeadOf(Rsa()), ClaimsWith("")), keys), "no key") << "k1 is not RSA";
}

TEST(OidcIdToken, WhatItClaimsMustBeForUsAndOfNow) {
  const std::vector<Key> keys = KeysOf(KeySet({P256().Jwk("k1")}));
  const auto check = [&](const std::string& change) {
    return Check(P256().Sign(HeadOf(P256()), ClaimsWith(change)), keys);
  };
  for (const std::string& fine :
       {std::string(R"("aud":["muster"])"),
        std::string(R"("aud":["other","muster"],"azp":"muster")"), StrCat("\"exp\":", kNowS - 59),
        StrCat("\"iat\":", kNowS + 60), StrCat("\"iat\":", kNowS - 3'600),
        StrCat("\"nbf\":", kNowS + 60), StrCat("\"exp\":", kNowS + 300, ".5")}) {
    EXPECT_EQ(check(fine), "ok") << fine;
  }
  const std::pair<std::string, std::string> refused[] = {
      {R"("iss":"https://id.example/realm/")", "issuer"},
      {R"("iss":7)", "iss"},
      {R"("aud":"other")", "aud"},
      {R"("aud":[])", "aud"},
      {R"("aud":["muster",7])", "aud"},
      {R"("aud":["other","muster"])", "azp"},
      {R"("azp":"other")", "azp"},
      {StrCat("\"exp\":", kNowS - 60), "expired"},
      {R"("exp":"soon")", "exp"},
      {R"("exp":1e300)", "exp"},
      {R"("exp":null)", "exp"},
      {StrCat("\"iat\":", kNowS + 61), "future"},
      {StrCat("\"iat\":", kNowS - 3'601), "too long ago"},
      {StrCat("\"nbf\":", kNowS + 61), "not valid yet"},
      {R"("sub":"")", "sub"},
      {R"("sub":null)", "sub"},
      {R"("sub":"a b")", "sub"},
      {R"("sub":"a\"; rm -rf")", "sub"},
      {R"("sub":"a`b`")", "sub"},
      {R"("sub":"\u00e9")", "sub"},
      {StrCat(R"("sub":")", std::string(256, 'x'), "\""), "sub"}};
  for (const auto& [change, word] : refused) {
    const std::string why = check(change);
    EXPECT_NE(why, "ok") << change;
    EXPECT_NE(why.find(word), std::string::npos) << change << ": " << why;
  }
}

TEST(OidcIdToken, OneThatAnotherSignedOrNobodyIsRefused) {
  const Signer other(false);
  const std::vector<Key> keys = KeysOf(KeySet({P256().Jwk("k1"), Rsa().Jwk("k2")}));
  const std::string good = P256().Sign(HeadOf(P256()), ClaimsWith(""));
  EXPECT_NE(Check(other.Sign(HeadOf(P256()), ClaimsWith("")), keys).find("signature"),
            std::string::npos);
  const std::string unsigned_text = good.substr(0, good.rfind('.') + 1);
  EXPECT_NE(Check(unsigned_text, keys).find("signature"), std::string::npos);
  // The signature of other claims.
  const std::string changed =
      StrCat(good.substr(0, good.find('.') + 1), Base64(ClaimsWith(R"("sub":"root")")),
             good.substr(good.rfind('.')));
  EXPECT_NE(Check(changed, keys).find("signature"), std::string::npos);
  for (const char* algorithm : {"none", "HS256", "RS384", "PS256", "es256", ""}) {
    const std::string head = StrCat(R"({"alg":")", algorithm, R"(","kid":"k1"})");
    EXPECT_NE(Check(P256().Sign(head, ClaimsWith("")), keys), "ok") << algorithm;
    EXPECT_NE(Check(StrCat(Base64(head), ".", Base64(ClaimsWith("")), "."), keys), "ok")
        << algorithm;
  }
  EXPECT_NE(Check(P256().Sign(R"({"alg":"ES256","kid":"k1","crit":["b64"]})", ClaimsWith("")), keys)
                .find("crit"),
            std::string::npos);
  // A signature in DER, which OpenSSL writes and JWS does not.
  EXPECT_NE(Check(unsigned_text + Base64(std::string(70, '0')), keys).find("signature"),
            std::string::npos);
  for (const std::string& garbage :
       {std::string(), std::string("."), std::string(".."), std::string("a.b.c"), good + ".x",
        good + "=", "!" + good, std::string(50'000, 'a')}) {
    EXPECT_NE(Check(garbage, keys), "ok") << garbage.substr(0, 80);
  }
}

TEST(OidcKeys, WeakKeysAndPointsBesideTheCurveAreLeftOut) {
  const std::string small = Base64("\x01" + std::string(127, 'n'));
  const std::string long_n = Base64("\x01" + std::string(1'024, 'n'));
  const std::string fine_n = Base64("\x80" + std::string(255, 'n'));
  const auto rsa = [](const std::string& n, const std::string& e) {
    return StrCat(R"({"kty":"RSA","n":")", n, R"(","e":")", e, "\"}");
  };
  EXPECT_EQ(KeysOf(KeySet({rsa(fine_n, "AQAB")})).size(), 1u);
  EXPECT_EQ(KeysOf(KeySet({rsa(small, "AQAB"), rsa(long_n, "AQAB"), rsa(fine_n, "AQ"),
                           rsa(fine_n, "Ag"), rsa(fine_n, "AQAAAAAAAQ")}))
                .size(),
            0u);
  const std::string off = Base64(std::string(32, '\x01'));
  EXPECT_EQ(
      KeysOf(KeySet({StrCat(R"({"kty":"EC","crv":"P-256","x":")", off, R"(","y":")", off, "\"}"),
                     P256().Jwk("k1")}))
          .size(),
      1u)
      << "the other one stays";
  EXPECT_EQ(
      KeysOf(
          R"({"keys":[{"kty":"RSA","use":"enc","n":"AA","e":"AQ"},{"kty":"RSA","alg":"RS512","n":"AA","e":"AQ"}]})")
          .size(),
      0u);
  for (const char* wrong :
       {"[]", "{}", R"({"keys":{}})", R"({"keys":[7]})", R"({"keys":[{"kty":"RSA"}]})",
        "{\"keys\":[", R"({"keys":[{"kty":"RSA","n":"A=","e":"AQAB"}]})"}) {
    EXPECT_FALSE(ReadWrittenKeys(wrong).ok()) << wrong;
  }
  EXPECT_FALSE(ReadWrittenKeys(KeySet(std::vector<std::string>(kKeysMax + 1, "{}"))).ok());
}

std::string MetadataWith(const std::string& change) {
  return StrCat(
      R"({"issuer":")", kIssuer, R"(","device_authorization_endpoint":"https://id.example/begin",)",
      R"("token_endpoint":"https://id.example/token","jwks_uri":"https://id.example/keys")",
      change.empty() ? "" : ",", change, "}");
}

TEST(OidcAnswers, DiscoveryIsOfExactlyThisIssuerAndItsEndpointsAreEncrypted) {
  EXPECT_TRUE(ReadMetadata(MetadataWith(""), kIssuer)->takes_basic);
  EXPECT_FALSE(
      ReadMetadata(
          MetadataWith(R"("token_endpoint_auth_methods_supported":["client_secret_post"])"),
          kIssuer)
          ->takes_basic);
  EXPECT_EQ(ReadMetadata(MetadataWith(R"("jwks_uri":"http://127.0.0.1:5/k")"), kIssuer)->keys.port,
            5);
  for (const char* change :
       {R"("issuer":"https://id.example/realm/")", R"("jwks_uri":"http://id.example/keys")",
        R"("token_endpoint":"ftp://x")", R"("token_endpoint":"http://127.0.0.1.evil.example/")",
        R"("device_authorization_endpoint":7)"}) {
    EXPECT_FALSE(ReadMetadata(MetadataWith(change), kIssuer).ok()) << change;
  }
  EXPECT_NE(ReadMetadata(StrCat(R"({"issuer":")", kIssuer, "\"}"), kIssuer)
                .status()
                .message()
                .find("device grant"),
            absl::string_view::npos);
  EXPECT_FALSE(ReadMetadata(std::string(kAnswerBytesMax + 1, ' ') + "{}", kIssuer).ok());
  EXPECT_FALSE(
      ReadMetadata(MetadataWith(StrCat("\"x\":", std::string(20, '['), std::string(20, ']'))),
                   kIssuer)
          .ok());
}

TEST(OidcAnswers, ADeviceGrantIsBoundedAndFitToBeShown) {
  const auto read = [](const std::string& change) {
    return ReadDeviceGrant(StrCat(
        R"({"device_code":"d","user_code":"AB-CD","verification_uri":"https://id.example/device","expires_in":1800)",
        change.empty() ? "" : ",", change, "}"));
  };
  EXPECT_EQ(read("")->interval_s, 5);
  EXPECT_EQ(read(R"("interval":0)")->interval_s, 1);
  EXPECT_EQ(read(R"("interval":1e9)")->interval_s, 60);
  EXPECT_EQ(read(R"("expires_in":1e9)")->expires_s, 3'600);
  for (const char* change :
       {R"("expires_in":0)", R"("expires_in":-1)", R"("expires_in":"1")", R"("interval":"5")",
        R"("user_code":"\u001b[2J")", R"("verification_uri":"javascript:alert")",
        R"("verification_uri_complete":"https://a b")", R"("device_code":"a\r\nb")",
        R"("user_code":"")"}) {
    EXPECT_FALSE(read(change).ok()) << change;
  }
  EXPECT_EQ(
      ReadDeviceGrant(
          R"({"device_code":"d","user_code":"c","verification_url":"https://g.example/d","expires_in":9})")
          ->verification_uri,
      "https://g.example/d");
}

TEST(OidcAnswers, TheTokenEndpointSaysWhatComesNext) {
  using Kind = TokenAnswer::Kind;
  const auto read = [](int status, const std::string& body) {
    return ReadTokenAnswer({.status = status, .body = body});
  };
  EXPECT_EQ(read(200, R"({"id_token":"a.b.c"})")->id_token, "a.b.c");
  EXPECT_FALSE(read(200, R"({"access_token":"a"})").ok());
  EXPECT_EQ(read(400, R"({"error":"authorization_pending"})")->kind, Kind::kPending);
  EXPECT_EQ(read(428, R"({"error":"slow_down"})")->kind, Kind::kSlowDown);
  EXPECT_EQ(read(400, R"({"error":"access_denied"})")->kind, Kind::kDenied);
  EXPECT_EQ(read(400, R"({"error":"expired_token"})")->kind, Kind::kExpired);
  EXPECT_EQ(std::string(read(401, R"({"error":"invalid_client","error_description":"who?\u001b"})")
                            .status()
                            .message()),
            "HTTP status 401, invalid_client: who?\\x1b");
  EXPECT_FALSE(read(500, "<html>").ok());
}

DeviceGrant Grant() {
  return {.device_code = "device",
          .user_code = "AB",
          .verification_uri = "https://id.example",
          .interval_s = 5,
          .expires_s = 60};
}

TEST(OidcPending, IsAskedNoMoreOftenThanTheIntervalAndByOneAtATime) {
  PendingSignIns all;
  const std::string handle = *all.Reserve("peer:a", 0);
  EXPECT_EQ(handle.size(), 64u);
  EXPECT_EQ(all.Take({.handle = handle, .key_sha256 = "k", .now_ms = 1'000}).verdict,
            Verdict::kNotYet)
      << "not begun";
  all.Fill(handle, Grant(), 1'000);
  const auto take = [&](int64_t now_ms) {
    return all.Take({.handle = handle, .key_sha256 = "k", .now_ms = now_ms});
  };
  EXPECT_EQ(take(5'999).verdict, Verdict::kNotYet);
  EXPECT_EQ(take(6'000).device_code, "device");
  EXPECT_EQ(take(20'000).verdict, Verdict::kNotYet) << "it is being asked";
  all.Later(handle, false, 20'000);
  EXPECT_EQ(take(24'999).verdict, Verdict::kNotYet);
  EXPECT_EQ(take(25'000).verdict, Verdict::kAsk);
  all.Later(handle, true, 25'000);
  EXPECT_EQ(take(34'999).verdict, Verdict::kNotYet) << "slower by 5 s";
  EXPECT_EQ(take(35'000).verdict, Verdict::kAsk);
  all.Later(handle, false, 35'000);
  EXPECT_EQ(take(60'999).verdict, Verdict::kAsk);
  all.Later(handle, false, 60'999);
  EXPECT_EQ(take(61'000).verdict, Verdict::kUnknown) << "expired";
}

TEST(OidcPending, OfABrowserHasItsRequestForACertificateAndIsOfNoUseToAnotherKey) {
  PendingSignIns all;
  const std::string program = *all.Reserve("peer:a", 0);
  const std::string browser = *all.Reserve("peer:a", 0);
  for (const std::string& each : {program, browser}) all.Fill(each, Grant(), 0);
  all.Bind(browser, "csr", "k");
  all.Bind("unknown", "csr", "k");
  EXPECT_FALSE(all.FindInBrowser(program, 0).has_value()) << "no browser waits for it";
  EXPECT_FALSE(all.FindInBrowser("unknown", 0).has_value());
  EXPECT_EQ(all.FindInBrowser(browser, 0)->csr_pem, "csr");
  EXPECT_EQ(all.FindInBrowser(browser, 0)->grant.device_code, "device");
  const auto take = [&](const std::string& key) {
    return all.Take({.handle = browser, .key_sha256 = key, .now_ms = 6'000}).verdict;
  };
  EXPECT_EQ(take("thief"), Verdict::kOtherKey);
  EXPECT_EQ(take("k"), Verdict::kAsk);
  all.Drop(browser);
  EXPECT_FALSE(all.FindInBrowser(browser, 6'000).has_value());
}

TEST(OidcPending, IsBoundToTheFirstKeyAndUsedOnce) {
  PendingSignIns all;
  const std::string handle = *all.Reserve("peer:a", 0);
  all.Fill(handle, Grant(), 0);
  EXPECT_EQ(all.Take({.handle = handle, .key_sha256 = "k", .now_ms = 1}).verdict, Verdict::kNotYet);
  EXPECT_EQ(all.Take({.handle = handle, .key_sha256 = "thief", .now_ms = 9'000}).verdict,
            Verdict::kOtherKey);
  EXPECT_EQ(all.Take({.handle = handle, .key_sha256 = "k", .now_ms = 9'000}).verdict,
            Verdict::kAsk);
  all.Drop(handle);
  EXPECT_EQ(all.Take({.handle = handle, .key_sha256 = "k", .now_ms = 20'000}).verdict,
            Verdict::kUnknown);
  EXPECT_EQ(all.Take({.handle = "", .key_sha256 = "k", .now_ms = 20'000}).verdict,
            Verdict::kUnknown);
}

TEST(OidcPending, IsForgottenWhenNobodyPollsIt) {
  PendingSignIns all;
  const std::string handle = *all.Reserve("peer:a", 0);
  DeviceGrant grant = Grant();
  grant.expires_s = 3'600;
  all.Fill(handle, grant, 0);
  const auto take = [&](int64_t now_ms, const std::string& key) {
    return all.Take({.handle = handle, .key_sha256 = key, .now_ms = now_ms}).verdict;
  };
  EXPECT_EQ(take(1'000, "k"), Verdict::kNotYet);
  EXPECT_EQ(take(PendingSignIns::kSilentMs, "thief"), Verdict::kOtherKey) << "keeps nothing alive";
  EXPECT_EQ(take(PendingSignIns::kSilentMs + 999, "k"), Verdict::kAsk);
  EXPECT_EQ(take(2 * PendingSignIns::kSilentMs + 999, "k"), Verdict::kUnknown);
}

TEST(OidcPending, TheirNumberIsBoundedAndExpiredOnesMakeRoom) {
  PendingSignIns all;
  std::set<std::string> handles;
  for (size_t i = 0; i < PendingSignIns::kMostOfPeer; ++i)
    handles.insert(*all.Reserve("peer:a", 0));
  EXPECT_EQ(handles.size(), PendingSignIns::kMostOfPeer);
  EXPECT_EQ(common::CodeOf(all.Reserve("peer:a", 0).status()), "JC1356");
  for (size_t i = PendingSignIns::kMostOfPeer; i < PendingSignIns::kMost; ++i) {
    EXPECT_TRUE(all.Reserve(StrCat("peer:", i), 0).ok());
  }
  EXPECT_EQ(common::CodeOf(all.Reserve("peer:b", 0).status()), "JC1356");
  EXPECT_TRUE(all.Reserve("peer:a", PendingSignIns::kSilentMs).ok())
      << "the provider never answered for them";
  EXPECT_EQ(all.Count(PendingSignIns::kSilentMs), 1u);
}

// A provider of which the test writes each answer.
class Scripted {
 public:
  Provider Make(std::string secret = "") {
    return {{.issuer = kIssuer,
             .client_id = "mus ter",
             .secret = std::move(secret),
             .scope = "openid email"},
            [this](const common::HttpCall& call) { return Answer(call); }};
  }
  absl::StatusOr<common::HttpResponse> Answer(const common::HttpCall& call) {
    asked.push_back(call);
    const std::string& path = call.url.target;
    if (path.ends_with("openid-configuration")) {
      if (is_down) return absl::UnavailableError("cannot reach it");
      return common::HttpResponse{.status = 200, .body = metadata};
    }
    if (path == "/keys") return common::HttpResponse{.status = 200, .body = keys};
    if (path == "/token" && token_answer.has_value()) return *token_answer;
    return common::HttpResponse{
        .status = 200, .body = path == "/token" ? StrCat("{\"id_token\":\"", token, "\"}") : grant};
  }
  size_t CountOf(const std::string& target) const {
    return static_cast<size_t>(
        std::count_if(asked.begin(), asked.end(),
                      [&](const common::HttpCall& call) { return call.url.target == target; }));
  }

  bool is_down = false;
  std::string metadata = MetadataWith("");
  std::string keys = KeySet({P256().Jwk("k1")});
  std::string token;
  std::optional<common::HttpResponse> token_answer;  // instead of the token
  std::string grant =
      R"({"device_code":"d&","user_code":"AB-CD","verification_uri":"https://id.example/device","expires_in":600})";
  std::vector<common::HttpCall> asked;
};

TEST(OidcProvider, IsDiscoveredAtTheFirstUseAndAgainAfterAnHour) {
  Scripted script;
  Provider provider = script.Make();
  script.is_down = true;
  EXPECT_EQ(common::CodeOf(provider.Begin({}).status()), "JC1362");
  script.is_down = false;
  ASSERT_TRUE(provider.Begin({}).ok());
  ASSERT_TRUE(provider.Begin({.mono_ms = Provider::kRememberedMs - 1}).ok());
  EXPECT_EQ(script.CountOf("/realm/.well-known/openid-configuration"), 2u);
  EXPECT_EQ(script.asked.back().body, "client_id=mus%20ter&scope=openid%20email");
  ASSERT_TRUE(provider.Begin({.mono_ms = Provider::kRememberedMs}).ok());
  EXPECT_EQ(script.CountOf("/realm/.well-known/openid-configuration"), 3u);
  script.grant = "{}";
  EXPECT_EQ(common::CodeOf(provider.Begin({}).status()), "JC1362");
}

TEST(OidcProvider, TheSecretGoesWhereTheProviderTakesIt) {
  Scripted script;
  Provider basic = script.Make("a:b");
  ASSERT_TRUE(basic.Begin({}).ok());
  EXPECT_EQ(script.asked.back().headers.back().second, "Basic bXVzJTIwdGVyOmElM0Fi");
  EXPECT_EQ(script.asked.back().body.find("secret"), std::string::npos);
  script.metadata =
      MetadataWith(R"("token_endpoint_auth_methods_supported":["client_secret_post"])");
  Provider post = script.Make("a:b");
  ASSERT_TRUE(post.Begin({}).ok());
  EXPECT_NE(script.asked.back().body.find("&client_secret=a%3Ab"), std::string::npos);
}

TEST(OidcProvider, ItsKeysAreAskedForOnceMoreIfATokenNamesAnUnknownOne) {
  Scripted script;
  Provider provider = script.Make();
  const Provider::Times now{.mono_ms = 0, .wall_ms = kNowS * 1'000};
  const std::string claims = ClaimsWith(R"("aud":"mus ter")");
  script.token = P256().Sign(HeadOf(P256()), claims);
  EXPECT_EQ(provider.Ask("d", now)->subject, "24.aef|1");
  EXPECT_EQ(provider.Ask("d", now)->subject, "24.aef|1");
  EXPECT_EQ(script.CountOf("/keys"), 1u);
  EXPECT_NE(script.asked[1].body.find(
                "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code&device_code=d"),
            std::string::npos);
  const Signer next(false);
  script.token = next.Sign(HeadOf(next, "k2"), claims);
  EXPECT_EQ(common::CodeOf(provider.Ask("d", now).status()), "JC1365");
  EXPECT_EQ(script.CountOf("/keys"), 2u);
  script.keys = KeySet({next.Jwk("k2")});
  EXPECT_EQ(provider.Ask("d", now)->subject, "24.aef|1");
  EXPECT_EQ(script.CountOf("/keys"), 3u);
}

TEST(OidcProvider, OnlyWhatAnotherQuestionCanMendIsUnavailable) {
  Scripted script;
  Provider provider = script.Make();
  const auto ask = [&](int status, const std::string& body) {
    script.token_answer = common::HttpResponse{.status = status, .body = body};
    const absl::Status why = provider.Ask("d", {}).status();
    EXPECT_EQ(common::CodeOf(why), "JC1362");
    return why.code();
  };
  EXPECT_EQ(ask(502, "<html>"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ask(429, ""), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ask(200, R"({"access_token":"a"})"), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ask(401, R"({"error":"invalid_client"})"), absl::StatusCode::kFailedPrecondition);
  // A token is given once, so without keys it is lost.
  script.keys = "[]";
  EXPECT_EQ(ask(200, R"({"id_token":"a.b.c"})"), absl::StatusCode::kFailedPrecondition);
}

TEST(OidcClient, EndpointsAreEncryptedOrOnThisMachine) {
  for (const char* fine :
       {"https://id.example/x", "http://127.0.0.1:80/", "http://localhost:5", "http://[::1]:7/"}) {
    EXPECT_TRUE(ReadEndpoint(fine).ok()) << fine;
  }
  for (const char* wrong : {"http://id.example/", "http://10.0.0.1/", "ftp://x", "",
                            "https://u:p@id.example", "http://localhost.example/"}) {
    EXPECT_FALSE(ReadEndpoint(wrong).ok()) << wrong;
  }
  // What a name resolves to counts as well.
  sockaddr_in elsewhere{.sin_family = AF_INET};
  inet_pton(AF_INET, "10.0.0.1", &elsewhere.sin_addr);
  const auto* address = reinterpret_cast<const sockaddr*>(&elsewhere);
  EXPECT_FALSE(CheckAddress(*ReadEndpoint("http://localhost:5"), address).ok());
  EXPECT_TRUE(CheckAddress(*ReadEndpoint("https://id.example"), address).ok());
}

TEST(OidcClient, ItsSecretIsAFileThatNobodyElseReads) {
  const TempDir directory;
  const std::string path = directory.path() + "/secret";
  const Settings settings{.issuer = kIssuer, .client_id = "muster", .secret_file = path};
  EXPECT_EQ(common::CodeOf(ReadClient(settings).status()), "JC1368") << "missing";
  std::ofstream(path) << "s3cret\n";
  chmod(path.c_str(), 0644);
  EXPECT_EQ(common::CodeOf(ReadClient(settings).status()), "JC1368") << "open to others";
  chmod(path.c_str(), 0600);
  EXPECT_EQ(ReadClient(settings)->secret, "s3cret");
  std::ofstream(path) << "two\nlines\n";
  EXPECT_EQ(common::CodeOf(ReadClient(settings).status()), "JC1368");
}

}  // namespace
}  // namespace muster::coordinator::oidc
