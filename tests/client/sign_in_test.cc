// When jobctl renews a person's certificate, and where it is kept.
#include "client/session/sign_in.h"

#include <gtest/gtest.h>

#include <string>

#include "client/session/device_login.h"

namespace muster::client {
namespace {

TEST(SignIn, IsRenewedInItsSecondHalfAndNeverAfterItsEnd) {
  const SignInLife life{.from_ms = 1'000, .until_ms = 2'000};
  EXPECT_EQ(StateOf(life, 500), SignInState::kFresh);
  EXPECT_EQ(StateOf(life, 1'500), SignInState::kFresh);
  EXPECT_EQ(StateOf(life, 1'501), SignInState::kRenew);
  EXPECT_EQ(StateOf(life, 1'999), SignInState::kRenew);
  EXPECT_EQ(StateOf(life, 2'000), SignInState::kExpired);
}

TEST(SignIn, AFingerprintIsTakenAsPeopleCopyIt) {
  const std::string digits(64, 'a');
  EXPECT_EQ(*ReadFingerprint(digits), digits);
  EXPECT_EQ(*ReadFingerprint("SHA256:" + digits), digits);
  std::string colons;
  for (int i = 0; i < 32; ++i) colons += i == 0 ? "AA" : ":AA";
  EXPECT_EQ(*ReadFingerprint("sha256:" + colons), digits);
  for (const std::string& wrong : {std::string(), std::string("SHA256:"), digits + "a",
                                   std::string(64, 'g'), "SHA1:" + digits}) {
    EXPECT_FALSE(ReadFingerprint(wrong).ok()) << wrong;
  }
}

TEST(SignIn, IsKeptBesideTheConfiguration) {
  ConfigFile file;
  file.path = "/home/alice/.config/muster/config.yaml";
  EXPECT_EQ(CredentialsPath(file, "lab"), "/home/alice/.config/muster/credentials/lab");
  file.path = "config.yaml";
  EXPECT_EQ(CredentialsPath(file, "lab"), "./credentials/lab");
}

}  // namespace
}  // namespace muster::client
