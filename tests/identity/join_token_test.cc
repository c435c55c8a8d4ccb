#include "identity/join_token.h"

#include <gtest/gtest.h>

#include "common/problem.h"

namespace muster::identity {
namespace {

TEST(JoinTokenTest, WhatIsPrintedIsReadBack) {
  const TokenText made{
      .authority = std::string(64, 'a'), .id = MakeTokenId(), .secret = MakeTokenSecret()};
  const std::string text = FormatToken(made);
  const auto read = ParseToken(text + "\n");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->authority, made.authority);
  EXPECT_EQ(read->id, made.id);
  EXPECT_EQ(HashOfSecret(read->secret), HashOfSecret(made.secret));
  EXPECT_NE(HashOfSecret(MakeTokenSecret()), HashOfSecret(made.secret));
}

TEST(JoinTokenTest, AnErrorNeverHasTheSecretInIt) {
  const std::string secret = MakeTokenSecret();
  for (const std::string& text :
       {"muster1.zz." + MakeTokenId() + "." + secret,
        "muster2." + std::string(64, 'a') + ".x." + secret,
        "muster1." + std::string(64, 'a') + ".x." + secret,
        "muster1." + std::string(64, 'a') + "." + MakeTokenId() + "." + secret.substr(1), secret,
        "muster1." + std::string(64, 'a') + "." + MakeTokenId() + ".\n" + secret.substr(1),
        std::string(1000, 'x')}) {
    const auto read = ParseToken(text);
    EXPECT_EQ(common::CodeOf(read.status()), "JC1322") << text;
    EXPECT_EQ(read.status().message().find(absl::string_view(secret.data() + 1, 20)),
              absl::string_view::npos);
  }
}

}  // namespace
}  // namespace muster::identity
