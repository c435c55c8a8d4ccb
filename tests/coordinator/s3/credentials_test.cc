// Where credentials are found, how long they are kept, and that none is told to anybody. plain-words: a test's title
#include "coordinator/s3/credentials.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "common/files/files.h"
#include "common/http/transfers.h"
#include "coordinator/s3/credential_chain.h"
#include "coordinator/s3/credential_files.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/support/scripted_server.h"

namespace muster::coordinator::s3 {
namespace {

using muster::testing::HttpAnswer;
using muster::testing::ScriptedServer;
using muster::testing::ServedRequest;

class S3Credentials : public ::testing::Test {
 protected:
  S3Credentials() {
    variables_ = {{"HOME", dir_.path()}, {"AWS_EC2_METADATA_DISABLED", "true"}};
    transfers_ = *common::Transfers::Open("");
  }
  absl::StatusOr<Credentials> Find() {
    return FindCredentials({.environment =
                                [this](const char* name) {
                                  const auto found = variables_.find(name);
                                  return found == variables_.end() ? "" : found->second;
                                },
                            .region = "eu-west-1",
                            .transfers = transfers_.get()});
  }
  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(common::MakeDirectories(dir_.path() + "/.aws").ok());
    ASSERT_TRUE(common::WriteFileAtomically(dir_.path() + "/" + name, text).ok());
  }
  std::string ErrorOf(absl::StatusCode code) {
    const absl::Status status = Find().status();
    EXPECT_EQ(status.code(), code) << status;
    return std::string(status.message());
  }

  const TempDir dir_;
  std::map<std::string, std::string> variables_;
  std::unique_ptr<common::Transfers> transfers_;
};

TEST_F(S3Credentials, AreThoseOfTheEnvironmentFirst) {
  Write(".aws/credentials", "[default]\naws_access_key_id = FILE\naws_secret_access_key = s\n");
  variables_["AWS_ACCESS_KEY_ID"] = "ENV";
  EXPECT_NE(ErrorOf(absl::StatusCode::kPermissionDenied).find("must both be set"),
            std::string::npos);
  variables_["AWS_SECRET_ACCESS_KEY"] = "hidden-value";
  variables_["AWS_SESSION_TOKEN"] = "t";
  EXPECT_EQ(Find()->access_key, "ENV");
  EXPECT_EQ(Find()->session_token, "t");
  variables_["AWS_SECRET_ACCESS_KEY"] = "hidden\nvalue";
  EXPECT_EQ(ErrorOf(absl::StatusCode::kPermissionDenied).find("hidden"), std::string::npos);
}

TEST_F(S3Credentials, AreReadFromFilesOfAws) {
  Write(".aws/credentials",
        "# comment\n[other]\naws_access_key_id=X\n\n[default]\r\naws_access_key_id = FILE\r\n"
        "aws_secret_access_key = a=b \r\n");
  EXPECT_EQ(Find()->access_key, "FILE");
  EXPECT_EQ(Find()->secret_key, "a=b");
  Write(".aws/config",
        "[profile lab]\ns3 =\n  aws_access_key_id = NESTED\naws_access_key_id = LAB\n"
        "aws_secret_access_key = s\n[profile sso]\nsso_start_url = https://x\n");
  variables_["AWS_PROFILE"] = "lab";
  EXPECT_EQ(Find()->access_key, "LAB");
  variables_["AWS_PROFILE"] = "sso";
  EXPECT_NE(ErrorOf(absl::StatusCode::kPermissionDenied).find("come by sso_start_url"),
            std::string::npos);
  variables_["AWS_PROFILE"] = "none";
  EXPECT_NE(ErrorOf(absl::StatusCode::kPermissionDenied).find("profile none"), std::string::npos);
}

TEST_F(S3Credentials, ThatAreNowhereAreToldWithTheFix) {
  EXPECT_NE(ErrorOf(absl::StatusCode::kPermissionDenied).find("set AWS_ACCESS_KEY_ID"),
            std::string::npos);
}

TEST_F(S3Credentials, AreExchangedForAWebIdentity) {
  ScriptedServer service([](const ServedRequest& request) {
    if (!request.body.ends_with("&WebIdentityToken=the.token"))
      return HttpAnswer(
          "400 Bad Request",
          "<ErrorResponse><Error><Code>InvalidIdentityToken</Code></Error></ErrorResponse>");
    return HttpAnswer(
        "200 OK",
        "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><"
        "AccessKeyId>STS"
        "</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</"
        "SessionToken><Expiration>"
        "2040-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>"
        "</AssumeRoleWithWebIdentityResponse>");
  });
  Write("token", "the.token\n");
  variables_["AWS_WEB_IDENTITY_TOKEN_FILE"] = dir_.path() + "/token";
  EXPECT_NE(ErrorOf(absl::StatusCode::kPermissionDenied).find("AWS_ROLE_ARN"), std::string::npos);
  variables_["AWS_ROLE_ARN"] = "arn:aws:iam::1:role/x";
  variables_["AWS_ENDPOINT_URL_STS"] = service.Url();
  const auto found = Find();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->access_key, "STS");
  EXPECT_EQ(found->expires_ms, 2'208'988'800'000);
  Write("token", "another");
  EXPECT_NE(ErrorOf(absl::StatusCode::kPermissionDenied).find("InvalidIdentityToken"),
            std::string::npos);
  variables_["AWS_ENDPOINT_URL_STS"] = "http://sts.example";
  EXPECT_NE(ErrorOf(absl::StatusCode::kPermissionDenied).find("https://HOST"), std::string::npos);
}

TEST_F(S3Credentials, AreThoseOfAContainerOrTheMachine) {
  ScriptedServer service([](const ServedRequest& request) {
    const std::string keys =
        R"({"Code":"Success","AccessKeyId":"ROLE","SecretAccessKey":"s","Token":"t",)"
        R"("Expiration":"2040-01-01T00:00:00Z"})";
    const auto has = [&request](const char* field) {
      return request.head.find(field) != std::string::npos;
    };
    if (request.target == "/pod")
      return has("Authorization: pod-token\r\n") ? HttpAnswer("200 OK", keys)
                                                 : HttpAnswer("401 No", "");
    if (request.method == "PUT")
      return has("X-aws-ec2-metadata-token-ttl-seconds: ") ? HttpAnswer("200 OK", "imds-token")
                                                           : HttpAnswer("400 No", "");
    if (!has("X-aws-ec2-metadata-token: imds-token\r\n")) return HttpAnswer("401 No", "");
    if (request.target == "/latest/meta-data/iam/security-credentials/")
      return HttpAnswer("200 OK", "the-role\n");
    return request.target.ends_with("/the-role") ? HttpAnswer("200 OK", keys)
                                                 : HttpAnswer("404 No", "");
  });
  variables_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = service.Url() + "/pod";
  Write("pod-token", "pod-token\n");
  variables_["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = dir_.path() + "/pod-token";
  auto found = Find();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->session_token, "t");
  variables_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://10.0.0.1/pod";
  EXPECT_NE(ErrorOf(absl::StatusCode::kPermissionDenied).find("neither https nor"),
            std::string::npos);
  variables_.erase("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  variables_.erase("AWS_EC2_METADATA_DISABLED");
  variables_["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = service.Url();
  found = Find();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->access_key, "ROLE");
  EXPECT_EQ(service.Asked().back(), "GET /latest/meta-data/iam/security-credentials/the-role");
}

TEST(S3CredentialAnswer, ThatIsNotOneIsRefused) {
  for (const std::string& json :
       {std::string(), std::string("[]"), std::string("{"), std::string(R"({"Code":"Failed"})"),
        std::string(R"({"AccessKeyId":1,"SecretAccessKey":"s"})"),
        std::string(R"({"AccessKeyId":"a"})"),
        std::string(R"({"AccessKeyId":"a\n","SecretAccessKey":"s"})"), std::string(100'000, '[')}) {
    EXPECT_FALSE(ReadCredentialAnswer(json).ok()) << json.substr(0, 40);
  }
}

TEST(S3CredentialCache, RenewsBeforeTheyExpireAndKeepsThemIfItCannot) {
  int64_t now_ms = 1'000'000;
  int fetches = 0;
  bool fails = false;
  CredentialCache cache(
      [&]() -> absl::StatusOr<Credentials> {
        ++fetches;
        if (fails) return absl::UnavailableError("no");
        return Credentials{.access_key = std::to_string(fetches),
                           .secret_key = "s",
                           .expires_ms = now_ms + 3'600'000};
      },
      [&] { return now_ms; });
  EXPECT_EQ(cache.Get()->access_key, "1");
  EXPECT_EQ(cache.Get()->access_key, "1");
  now_ms += 3'400'000;
  fails = true;
  // It was asked just now by the monotonic clock, and again only after a while.
  EXPECT_EQ(cache.Get()->access_key, "1");
  EXPECT_EQ(fetches, 1);
  EXPECT_FALSE(cache.Renew(*cache.Get()));
  EXPECT_TRUE(cache.Renew({.access_key = "0", .secret_key = "s"}));
}

TEST(S3CredentialCache, FetchesOnceForAllWhoWait) {
  std::atomic<int> fetches = 0;
  CredentialCache cache(
      [&]() -> absl::StatusOr<Credentials> {
        ++fetches;
        return Credentials{.access_key = "a", .secret_key = "s"};
      },
      [] { return 0; });
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] { EXPECT_EQ(cache.Get()->access_key, "a"); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fetches, 1);
}

}  // namespace
}  // namespace muster::coordinator::s3
