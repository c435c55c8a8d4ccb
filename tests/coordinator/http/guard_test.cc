// Who may ask over HTTP: addresses, hosts, origins, tokens, cookies, sign-in links.
#include "coordinator/http/admission/guard.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <string>

#include "common/files/files.h"
#include "common/hash/hex.h"
#include "common/problem.h"
#include "common/text/percent.h"
#include "common/text/strings.h"
#include "coordinator/http/admission/sessions.h"
#include "coordinator/http/admission/token_file.h"
#include "coordinator/http/http_service.h"
#include "coordinator/http/pages/page_files.h"
#include "coordinator/http/server/answers.h"
#include "coordinator/http/server/target.h"
#include "tests/coordinator/temp_dir.h"

namespace muster::coordinator::http {
namespace {

const Peer kLoopback = {.principal = "peer:127.0.0.1", .local_address = "127.0.0.1"};
const Peer kNetwork = {.principal = "peer:10.0.0.7", .local_address = "10.0.0.1"};

RequestHead Head(std::string method, Fields fields, Peer peer = kLoopback) {
  return {.peer = std::move(peer),
          .method = std::move(method),
          .target = "/",
          .fields = std::move(fields)};
}

TEST(HttpTarget, IsSplitAndDecoded) {
  const absl::StatusOr<Target> target = ParseTarget("/jobs/a%20b?x=1+2&y&x=%3D%26");
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(target->path, "/jobs/a b");
  const Query query = {{"x", "1 2"}, {"y", ""}, {"x", "=&"}};
  EXPECT_EQ(target->query, query);
  EXPECT_EQ(target->Get("x"), "1 2");
  EXPECT_EQ(target->Get("z"), "");
}

TEST(HttpTarget, AnythingButAPathFromTheRootIsRefused) {
  std::string many = "/?";
  for (size_t i = 0; i <= kQueryParametersMax; ++i) many += "a=1&";
  for (const std::string& text :
       {std::string("http://evil.example/"), std::string("*"), std::string(""), std::string("/%zz"),
        std::string("/%4"), std::string("/a#b"), std::string("/%00"), std::string("/%ff"),
        std::string("/%0d%0a"), many}) {
    const absl::StatusOr<Target> target = ParseTarget(text);
    EXPECT_EQ(common::CodeOf(target.status()), "JC1316") << text;
  }
}

TEST(HttpTarget, WhatIsEncodedDecodesToTheSame) {
  const std::string text = "calm otter/3?&=%+ä";
  const absl::StatusOr<Target> target = ParseTarget("/x?v=" + common::PercentEncode(text));
  ASSERT_TRUE(target.ok());
  EXPECT_EQ(target->Get("v"), text);
}

TEST(HttpHost, OnLoopbackOnlyLoopbackNamesAreOurs) {
  for (const char* host : {"127.0.0.1:7701", "localhost:9", "LOCALHOST", "[::1]:80", "127.0.0.2"})
    EXPECT_TRUE(IsOurHost(host, kLoopback, {})) << host;
  for (const char* host :
       {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", "", "::1",
        "127.0.0.1:", "127.0.0.1:x", "[::1", "localhost@evil.example", "127.0.0.1:80:80"})
    EXPECT_FALSE(IsOurHost(host, kLoopback, {})) << host;
}

TEST(HttpHost, TheZoneOfAnAddressIsNoPartOfIt) {
  EXPECT_EQ(HostName("[fe80::7%25eth0]:7701"), "fe80::7");
  EXPECT_EQ(HostName("[fe80::7%2]"), "fe80::7");
}

TEST(HttpHost, OnANetworkOnlyTheAddressItselfAndGivenNamesAreOurs) {
  EXPECT_TRUE(IsOurHost("10.0.0.1:7701", kNetwork, {}));
  EXPECT_FALSE(IsOurHost("localhost:7701", kNetwork, {}));
  EXPECT_FALSE(IsOurHost("10.0.0.2:7701", kNetwork, {}));
  EXPECT_FALSE(IsOurHost("head:7701", kNetwork, {}));
  EXPECT_TRUE(IsOurHost("HEAD:7701", kNetwork, {"Head"}));
}

TEST(HttpHost, ExactlyOneIsSent) {
  EXPECT_TRUE(CheckAddressed(Head("GET", {{"host", "localhost"}}), {}).ok());
  for (const Fields& fields : {Fields{}, Fields{{"host", "localhost"}, {"host", "evil.example"}}}) {
    const absl::Status status = CheckAddressed(Head("GET", fields), {});
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  }
  const absl::Status foreign = CheckAddressed(Head("GET", {{"host", "evil.example"}}), {});
  EXPECT_EQ(common::CodeOf(foreign), "JC1314");
  EXPECT_TRUE(absl::IsPermissionDenied(foreign));
}

TEST(HttpOrigin, OverTlsAPageThatCameUnencryptedIsForeign) {
  Peer peer = kLoopback;
  peer.is_encrypted = true;
  const auto ok = [&](const char* origin) {
    const Fields fields = {{"host", "localhost:7701"}, {"origin", origin}};
    return CheckOrigin(Head("POST", fields, peer), false, true).ok();
  };
  EXPECT_TRUE(ok("https://localhost:7701"));
  EXPECT_FALSE(ok("http://localhost:7701"));
}

TEST(HttpOrigin, IsCheckedOfWhatChangesSomethingAndOfStreams) {
  const auto ok = [](const char* method, Fields fields, bool stream, bool cookie) {
    fields.emplace_back("host", "localhost:7701");
    return CheckOrigin(Head(method, fields), stream, cookie).ok();
  };
  const Fields own = {{"origin", "http://localhost:7701"}};
  const Fields foreign = {{"origin", "http://evil.example"}};
  const Fields other_port = {{"origin", "http://localhost:7702"}};
  const Fields opaque = {{"origin", "null"}};
  EXPECT_TRUE(ok("POST", own, false, true));
  EXPECT_TRUE(ok("POST", {{"origin", "https://localhost:7701"}}, false, true));
  for (const Fields& fields : {foreign, other_port, opaque}) {
    EXPECT_FALSE(ok("POST", fields, false, true));
    EXPECT_FALSE(ok("POST", fields, false, false));  // also with a token
    EXPECT_FALSE(ok("GET", fields, true, true));
    EXPECT_TRUE(ok("GET", fields, false, true));
  }
  // Without an origin: a program with a token, but no browser with a cookie.
  EXPECT_TRUE(ok("POST", {}, false, false));
  EXPECT_FALSE(ok("POST", {}, false, true));
  EXPECT_TRUE(ok("GET", {{"sec-fetch-site", "same-origin"}}, true, true));
  EXPECT_FALSE(ok("GET", {{"sec-fetch-site", "cross-site"}}, true, true));
  EXPECT_FALSE(ok("POST", {{"sec-fetch-site", "same-site"}}, false, false));
}

class HttpSessions : public ::testing::Test {
 protected:
  using Proof = Sessions::Proof;
  const Sessions::MonoTime now_{};
  const std::string token_ = RandomHex256();
  const std::string metrics_ = RandomHex256();
  Sessions sessions_{{.token = token_, .metrics_token = metrics_}, "muster_7701", false};

  Proof Of(const std::string& name, const std::string& value, int64_t unix_s = 1'000) {
    return sessions_.SessionOf({{name, value}}, unix_s).proof;
  }
};

TEST_F(HttpSessions, ATokenIsAProof) {
  EXPECT_EQ(Of("authorization", "Bearer " + token_), Proof::kToken);
  EXPECT_EQ(Of("authorization", "bearer  " + token_), Proof::kToken);
  EXPECT_EQ(Of("authorization", "Bearer " + metrics_), Proof::kMetricsToken);
  for (const std::string& value :
       {"Bearer " + token_ + "0", "Bearer " + token_.substr(1), "Basic " + token_, token_,
        std::string("Bearer "), std::string("Bearer")})
    EXPECT_EQ(Of("authorization", value), Proof::kNone) << value;
  EXPECT_EQ(sessions_.SessionOf({}, 0).proof, Proof::kNone);
}

TEST_F(HttpSessions, ALinkWorksOnceAndItsCookieUntilItExpires) {
  const std::string ticket = sessions_.MakeTicket({.principal = "user:alice", .serial = ""}, now_);
  const absl::StatusOr<std::string> set_cookie = sessions_.Redeem(ticket, now_, 1'000);
  ASSERT_TRUE(set_cookie.ok()) << set_cookie.status();
  EXPECT_NE(set_cookie->find("; HttpOnly; SameSite=Strict; "), std::string::npos);
  EXPECT_EQ(common::CodeOf(sessions_.Redeem(ticket, now_, 1'000).status()), "JC1313");
  const std::string pair = set_cookie->substr(0, set_cookie->find(';'));
  EXPECT_EQ(Of("cookie", "theme=dark; " + pair), Proof::kCookie);
  EXPECT_EQ(Of("cookie", pair, 1'000 + Sessions::kCookieLivesS), Proof::kNone);
  // Of another port, another token, or with another end.
  EXPECT_EQ(Of("cookie", "muster_7702" + pair.substr(pair.find('='))), Proof::kNone);
  EXPECT_EQ(Of("cookie", "muster_7701=9" + pair.substr(pair.find('=') + 1)), Proof::kNone);
  Sessions moved({.token = token_, .metrics_token = metrics_}, "muster_7702", false);
  EXPECT_EQ(moved.SessionOf({{"cookie", "muster_7702" + pair.substr(pair.find('='))}}, 1'000).proof,
            Proof::kNone);
  Sessions other({.token = RandomHex256(), .metrics_token = metrics_}, "muster_7701", false);
  EXPECT_EQ(other.SessionOf({{"cookie", pair}}, 1'000).proof, Proof::kNone);
  // The same secrets after a restart.
  Sessions again({.token = token_, .metrics_token = metrics_}, "muster_7701", false);
  EXPECT_EQ(again.SessionOf({{"cookie", pair}}, 1'000).proof, Proof::kCookie);
}

TEST_F(HttpSessions, ACookieSaysWhoseItIsAndNobodyCanChangeThat) {
  const absl::StatusOr<std::string> set_cookie = sessions_.Redeem(
      sessions_.MakeTicket({.principal = "user:alice", .serial = ""}, now_), now_, 1'000);
  ASSERT_TRUE(set_cookie.ok()) << set_cookie.status();
  const std::string pair = set_cookie->substr(0, set_cookie->find(';'));
  EXPECT_EQ(sessions_.SessionOf({{"cookie", pair}}, 1'000).holder.principal, "user:alice");
  const std::string begin = pair.substr(0, pair.rfind('.') + 1);
  for (const std::string& other :
       {std::string("user:root "), std::string("user:alicE "), std::string(" "), std::string()})
    EXPECT_EQ(Of("cookie", begin + common::ToHex(other)), Proof::kNone) << other;
  EXPECT_EQ(Of("cookie", begin + "zz"), Proof::kNone);
  EXPECT_EQ(Of("cookie", pair.substr(0, pair.rfind('.'))), Proof::kNone);
}

TEST_F(HttpSessions, WhoSignedInWithACertificateHasASessionOfItsSerialForHours) {
  const absl::StatusOr<std::string> set_cookie = sessions_.Redeem(
      sessions_.MakeTicket({.principal = "user:alice", .user_id = "5f0c", .serial = "4f01"}, now_),
      now_, 1'000);
  ASSERT_TRUE(set_cookie.ok()) << set_cookie.status();
  const std::string pair = set_cookie->substr(0, set_cookie->find(';'));
  const Sessions::Session session = sessions_.SessionOf({{"cookie", pair}}, 1'000);
  EXPECT_EQ(session.holder.principal, "user:alice");
  EXPECT_EQ(session.holder.user_id, "5f0c") << "not the next user of the name";
  EXPECT_EQ(session.holder.serial, "4f01");
  EXPECT_EQ(Of("cookie", pair, 1'000 + Sessions::kMemberCookieLivesS), Proof::kNone);
}

TEST_F(HttpSessions, ASessionEndsWithTheCertificateThatAskedForIt) {
  const auto made = [this](int64_t until_s) {
    return sessions_.Redeem(
        sessions_.MakeTicket({.principal = "user:alice", .serial = "4f01", .until_s = until_s},
                             now_),
        now_, 1'000);
  };
  const absl::StatusOr<std::string> set_cookie = made(1'600);
  ASSERT_TRUE(set_cookie.ok()) << set_cookie.status();
  EXPECT_TRUE(set_cookie->ends_with("Max-Age=600")) << *set_cookie;
  const std::string pair = set_cookie->substr(0, set_cookie->find(';'));
  EXPECT_EQ(Of("cookie", pair, 1'599), Proof::kCookie);
  EXPECT_EQ(Of("cookie", pair, 1'600), Proof::kNone);
  const absl::StatusOr<std::string> longer = made(1'000'000'000);
  ASSERT_TRUE(longer.ok()) << longer.status();
  EXPECT_EQ(
      Of("cookie", longer->substr(0, longer->find(';')), 1'000 + Sessions::kMemberCookieLivesS),
      Proof::kNone);
  EXPECT_EQ(common::CodeOf(made(1'000).status()), "JC1313") << "it has expired since";
}

TEST_F(HttpSessions, OverTlsABrowserSendsTheCookieToNobodyElse) {
  Sessions encrypted({.token = token_, .metrics_token = metrics_}, "__Host-muster_7701", true);
  const absl::StatusOr<std::string> set_cookie = encrypted.Redeem(
      encrypted.MakeTicket({.principal = "user:alice", .serial = ""}, now_), now_, 1'000);
  ASSERT_TRUE(set_cookie.ok()) << set_cookie.status();
  // What the name's prefix demands.
  EXPECT_TRUE(set_cookie->starts_with("__Host-"));
  EXPECT_NE(set_cookie->find("; Path=/; "), std::string::npos);
  EXPECT_NE(set_cookie->find("; Secure; "), std::string::npos);
  EXPECT_EQ(set_cookie->find("Domain"), std::string::npos);
}

TEST_F(HttpSessions, ALinkIsForgottenAfterItsTimeOrWhenThereAreManyOthers) {
  const std::string late = sessions_.MakeTicket({.principal = "user:alice", .serial = ""}, now_);
  EXPECT_FALSE(sessions_.Redeem(late, now_ + Sessions::kLinkLives, 0).ok());
  const std::string first = sessions_.MakeTicket({.principal = "user:alice", .serial = ""}, now_);
  for (size_t i = 0; i < Sessions::kLinksMax; ++i)
    sessions_.MakeTicket({.principal = common::StrCat("user:", i), .serial = ""}, now_);
  EXPECT_FALSE(sessions_.Redeem(first, now_, 0).ok());
  EXPECT_FALSE(sessions_.Redeem("", now_, 0).ok());
}

TEST_F(HttpSessions, WhoMakesManyLinksHasItsOwnForgottenAlone) {
  const std::string others = sessions_.MakeTicket({.principal = "user:bob", .serial = ""}, now_);
  std::vector<std::string> own;
  for (size_t i = 0; i <= Sessions::kLinksMax; ++i)
    own.push_back(sessions_.MakeTicket({.principal = "user:alice", .serial = ""}, now_));
  EXPECT_FALSE(sessions_.Redeem(own.front(), now_, 0).ok());
  EXPECT_TRUE(sessions_.Redeem(own[own.size() - Sessions::kLinksOfOneMax], now_, 0).ok());
  EXPECT_TRUE(sessions_.Redeem(others, now_, 0).ok());
}

TEST(HttpTokenFile, IsASecretThatStays) {
  const TempDir dir;
  const std::string path = dir.path() + "/HTTP-TOKEN";
  const absl::StatusOr<std::string> token = LoadOrMakeToken(path);
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(token->size(), 64u);
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(*LoadOrMakeToken(path), *token);
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  const absl::Status open = LoadOrMakeToken(path).status();
  EXPECT_TRUE(absl::IsPermissionDenied(open)) << open;
  ASSERT_TRUE(common::WriteFileDurably(path, "short\n").ok());
  EXPECT_TRUE(absl::IsDataLoss(LoadOrMakeToken(path).status()));
}

TEST(HttpAddresses, OnlyLoopbackAndSocketsStayOnThisMachine) {
  for (const char* listen : {"127.0.0.1:0", "localhost:7701", "[::1]:7701", "unix:/run/m.sock"})
    EXPECT_TRUE(IsLocalOnly(listen)) << listen;
  for (const char* listen :
       {"0.0.0.0:7701", ":7701", "[::]:7701", "10.0.0.1:7701", "head:7701", "127.evil.example:80"})
    EXPECT_FALSE(IsLocalOnly(listen)) << listen;
}

TEST(HttpAddresses, ASignInLeadsOnlyToOurOwnPages) {
  EXPECT_TRUE(IsLocalPath("/jobs/train-7"));
  for (const char* path : {"", "jobs", "//evil.example", "/\\evil.example", "https://evil.example",
                           "/a\r\nSet-Cookie: b"})
    EXPECT_FALSE(IsLocalPath(path)) << path;
}

TEST(HttpAnswers, AnErrorTellsCodeWhatWhyAndFix) {
  const Response response = ErrorResponse(common::MakeProblem(
      absl::StatusCode::kNotFound, {.code = "JC1201", .what = "no job \"a<b\"", .why = "typo"}));
  EXPECT_EQ(response.status, 404u);
  EXPECT_EQ(response.content_type, "application/json");
  EXPECT_EQ(
      response.body,
      "{\"error\":{\"code\":\"JC1201\",\"what\":\"no job \\\"a\\u003cb\\\"\",\"why\":\"typo\","
      "\"fix\":\"`jobctl ls -a` lists all jobs; @last is your newest "
      "one.\",\"status\":404,\"grpcStatus\":\"NOT_FOUND\"}}\n");
}

TEST(HttpAnswers, AnErrorWithoutACodeIsStillJson) {
  const Response response = ErrorResponse(absl::InternalError("broken \xff"));
  EXPECT_EQ(
      response.body,
      "{\"error\":{\"what\":\"broken \\\\xff\",\"status\":500,\"grpcStatus\":\"INTERNAL\"}}\n");
}

TEST(HttpAnswers, HtmlIsEscaped) {
  const Response page = HtmlResponse(200, "<script>'\"&", "");
  EXPECT_NE(page.body.find("<title>&lt;script&gt;&#39;&quot;&amp;</title>"), std::string::npos);
}

}  // namespace
}  // namespace muster::coordinator::http
