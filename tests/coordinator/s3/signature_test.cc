// Signatures against AWS's published vectors: the Signature Version 4 test suite, and the examples of S3's
// documentation ("Authenticating Requests", headers and query parameters).
#include "coordinator/s3/signature.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/hash/sha256.h"

namespace muster::coordinator::s3 {
namespace {

constexpr int64_t kSuiteMs = 1'440'938'160'000;  // 20150830T123600Z
constexpr int64_t kDocsMs = 1'369'353'600'000;   // 20130524T000000Z

std::string SignatureOf(const std::string& authorization) {
  return authorization.substr(authorization.rfind('=') + 1);
}

Signing SuiteSigning() {
  return {.region = "us-east-1",
          .service = "service",
          .credentials = {.access_key = "AKIDEXAMPLE",
                          .secret_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"},
          .wall_ms = kSuiteMs};
}

struct SuiteCase {
  std::string name;
  SignedRequest request;  // without host and x-amz-date
  std::string body;
  std::string signature;
};

// Those of the suite that do not change the path, as S3 takes it as it is.
const std::vector<SuiteCase>& SuiteCases() {
  static const std::vector<SuiteCase> cases = {
      {"get-vanilla",
       {"GET", "/"},
       "",
       "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"get-vanilla-empty-query-key",
       {"GET", "/", {{"Param1", "value1"}}},
       "",
       "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"},
      {"get-vanilla-query-order-key",
       {"GET", "/", {{"Param1", "value2"}, {"Param1", "Value1"}}},
       "",
       "eedbc4e291e521cf13422ffca22be7d2eb8146eecf653089df300a15b2382bd1"},
      {"get-vanilla-query-order-key-case",
       {"GET", "/", {{"Param2", "value2"}, {"Param1", "value1"}}},
       "",
       "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
      {"get-vanilla-query-order-value",
       {"GET", "/", {{"Param1", "value2"}, {"Param1", "value1"}}},
       "",
       "5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694"},
      {"get-vanilla-query-unreserved",
       {"GET",
        "/",
        {{"-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
          "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"}}},
       "",
       "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
      {"get-vanilla-utf8-query",
       {"GET", "/", {{"\xE1\x88\xB4", "bar"}}},
       "",
       "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
      {"get-unreserved",
       {"GET", "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"},
       "",
       "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
      {"get-utf8",
       {"GET", "/\xE1\x88\xB4"},
       "",
       "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
      {"get-space",
       {"GET", "/example space/"},
       "",
       "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741"},
      {"get-header-key-duplicate",
       {"GET",
        "/",
        {},
        {{"My-Header1", "value2"}, {"My-Header1", "value2"}, {"My-Header1", "value1"}}},
       "",
       "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"},
      {"get-header-value-order",
       {"GET",
        "/",
        {},
        {{"My-Header1", "value4"},
         {"My-Header1", "value1"},
         {"My-Header1", "value3"},
         {"My-Header1", "value2"}}},
       "",
       "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01"},
      {"get-header-value-trim",
       {"GET", "/", {}, {{"My-Header1", " value1"}, {"My-Header2", " \"a   b   c\""}}},
       "",
       "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
      {"post-vanilla",
       {"POST", "/"},
       "",
       "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
      {"post-vanilla-query",
       {"POST", "/", {{"Param1", "value1"}}},
       "",
       "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11"},
      {"post-header-key-sort",
       {"POST", "/", {}, {{"My-Header1", "value1"}}},
       "",
       "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"},
      {"post-header-value-case",
       {"POST", "/", {}, {{"My-Header1", "VALUE1"}}},
       "",
       "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d"},
      {"post-x-www-form-urlencoded",
       {"POST", "/", {}, {{"Content-Type", "application/x-www-form-urlencoded"}}},
       "Param1=value1",
       "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"},
      {"post-x-www-form-urlencoded-parameters",
       {"POST", "/", {}, {{"Content-Type", "application/x-www-form-urlencoded; charset=utf8"}}},
       "Param1=value1",
       "1a72ec8f64bd914b0e42e42607c7fbce7fb2c7465f63e3092b3b0d39fa77a6fe"},
  };
  return cases;
}

TEST(S3Signature, IsThatOfTheTestSuite) {
  for (SuiteCase each : SuiteCases()) {
    each.request.headers.emplace_back("Host", "example.amazonaws.com");
    each.request.headers.emplace_back("X-Amz-Date", "20150830T123600Z");
    each.request.payload = common::Sha256Hex(each.body);
    EXPECT_EQ(SignatureOf(Authorization(SuiteSigning(), each.request)), each.signature)
        << each.name << "\n"
        << CanonicalRequest(each.request);
  }
}

TEST(S3Signature, HasASessionTokenAmongTheHeaders) {
  const std::string token =
      "AQoDYXdzEPT//////////"
      "wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwth"
      "Ax"
      "7mSEI/qkPpKPi/"
      "kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcH"
      "NVXAkiY9q6"
      "d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+"
      "scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";
  SignedRequest request{.method = "POST",
                        .path = "/",
                        .headers = {{"Host", "example.amazonaws.com"},
                                    {"X-Amz-Date", "20150830T123600Z"},
                                    {"X-Amz-Security-Token", token}},
                        .payload = std::string(kEmptyPayload)};
  EXPECT_EQ(SignatureOf(Authorization(SuiteSigning(), request)),
            "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead");
}

Signing DocsSigning() {
  return {.region = "us-east-1",
          .credentials = {.access_key = "AKIAIOSFODNN7EXAMPLE",
                          .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"},
          .wall_ms = kDocsMs};
}

SignedRequest DocsRequest(const std::string& method, const std::string& path, Fields query,
                          Fields headers, std::string_view payload = kEmptyPayload) {
  headers.emplace_back("Host", "examplebucket.s3.amazonaws.com");
  headers.emplace_back("x-amz-content-sha256", payload);
  headers.emplace_back("x-amz-date", "20130524T000000Z");
  return {.method = method,
          .path = path,
          .query = std::move(query),
          .headers = std::move(headers),
          .payload = std::string(payload)};
}

TEST(S3Signature, IsThatOfTheDocumentationsExamples) {
  const Signing signing = DocsSigning();
  EXPECT_EQ(Authorization(signing, DocsRequest("GET", "/test.txt", {}, {{"Range", "bytes=0-9"}})),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  const std::string body = "Welcome to Amazon S3.";
  EXPECT_EQ(SignatureOf(
                Authorization(signing, DocsRequest("PUT", "/test$file.text", {},
                                                   {{"Date", "Fri, 24 May 2013 00:00:00 GMT"},
                                                    {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                                                   common::Sha256Hex(body)))),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  EXPECT_EQ(SignatureOf(Authorization(signing, DocsRequest("GET", "/", {{"lifecycle", ""}}, {}))),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(SignatureOf(Authorization(
                signing, DocsRequest("GET", "/", {{"prefix", "J"}, {"max-keys", "2"}}, {}))),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(S3Signature, OfAUrlIsThatOfTheDocumentationsExample) {
  EXPECT_EQ(PresignedQuery(DocsSigning(),
                           {.method = "GET",
                            .path = "/test.txt",
                            .headers = {{"host", "examplebucket.s3.amazonaws.com"}}},
                           std::chrono::seconds(86'400)),
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%"
            "2Fus-east-1%2Fs3%2F"
            "aws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
            "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404");
}

}  // namespace
}  // namespace muster::coordinator::s3
