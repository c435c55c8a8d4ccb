#include "identity/credential_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "common/files/files.h"
#include "common/problem.h"
#include "identity/certificate.h"

namespace muster::identity {
namespace {

constexpr int64_t kToday = 1'790'000'000'000;

class CredentialFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "/credentials-XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    directory_ = path;
    path_ = directory_ + "/lab/credentials.pem";
    const Authority authority = Authority::Create("lab", kToday);
    const PrivateKey key = PrivateKey::Generate();
    made_ = {.key_pem = key.ToPem(),
             .certificate_pem = authority
                                    .Issue({.key = key.handle(),
                                            .subject = {Kind::kWorker, "node1"},
                                            .now_ms = kToday,
                                            .lives_ms = 1'000,
                                            .dns_names = {}})
                                    .pem,
             .authority_pem = authority.certificate_pem(),
             .cluster = "lab",
             .name = "node1",
             .endpoint = "head:7700",
             .http = "head:7701"};
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string directory_;
  std::string path_;
  Credentials made_;
};

TEST_F(CredentialFilesTest, WhatIsSavedIsLoadedAndItsOwnersAlone) {
  ASSERT_TRUE(SaveCredentials(path_, made_).ok());
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const auto loaded = LoadCredentials(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->key_pem, made_.key_pem);
  EXPECT_EQ(loaded->certificate_pem, made_.certificate_pem);
  EXPECT_EQ(loaded->authority_pem, made_.authority_pem);
  EXPECT_EQ(loaded->endpoint, "head:7700");
  EXPECT_EQ(loaded->http, "head:7701");
}

TEST_F(CredentialFilesTest, AFileThatOthersMayReadIsNotUsed) {
  ASSERT_TRUE(SaveCredentials(path_, made_).ok());
  ASSERT_EQ(chmod(path_.c_str(), 0640), 0);
  EXPECT_EQ(common::CodeOf(LoadCredentials(path_).status()), "JC1323");
}

TEST_F(CredentialFilesTest, AFileThatWasCutAnywhereIsRefused) {
  ASSERT_TRUE(SaveCredentials(path_, made_).ok());
  const std::string text = *common::ReadFile(path_);
  for (size_t size = 0; size < text.size(); size += 13) {
    EXPECT_FALSE(ParseCredentials(std::string_view(text).substr(0, size)).ok()) << size;
  }
  EXPECT_EQ(LoadCredentials(directory_ + "/none").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CredentialFilesTest, AnotherKeysCertificateIsRefused) {
  made_.key_pem = PrivateKey::Generate().ToPem();
  ASSERT_TRUE(SaveCredentials(path_, made_).ok());
  EXPECT_EQ(LoadCredentials(path_).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(CredentialFilesTest, AnAuthorityThatDidNotIssueTheCertificateIsRefused) {
  made_.authority_pem = Authority::Create("lab", kToday).certificate_pem();
  ASSERT_TRUE(SaveCredentials(path_, made_).ok());
  EXPECT_EQ(LoadCredentials(path_).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace muster::identity
