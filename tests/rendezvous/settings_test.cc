#include "rendezvous/settings.h"

#include <gtest/gtest.h>

#include <string>

namespace muster::rendezvous {
namespace {

const std::string kSecret = "secret " + std::string(64, 'a') + "\n";

std::string WhyNot(const std::string& text) {
  const auto settings = ParseSettings(text);
  return settings.ok() ? "" : std::string(settings.status().message());
}

TEST(Settings, AllLinesAreRead) {
  const auto settings =
      ParseSettings(kSecret +
                    "nodes 3\nworld 24\nupstream 10.0.0.1 7000\naccount 1000\nlocal 5\nlocal 6\n"
                    "status 7\nexits 8\n");
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->secret, std::string(32, '\xaa'));
  EXPECT_EQ(settings->nodes, 3u);
  EXPECT_EQ(settings->world, 24u);
  EXPECT_EQ(settings->upstream, "10.0.0.1");
  EXPECT_EQ(settings->port, 7000);
  EXPECT_EQ(settings->account, 1000u);
  EXPECT_EQ(settings->locals, (std::vector<int>{5, 6}));
  EXPECT_EQ(settings->status, 7);
  EXPECT_EQ(settings->exits, 8);
}

TEST(Settings, ALineThatIsNotRightIsNamed) {
  EXPECT_EQ(WhyNot("local 5\nwhatever 1\n"), "the line of 'whatever' is not right");
  EXPECT_EQ(WhyNot("local\n"), "the line of 'local' is not right");
  EXPECT_EQ(WhyNot("local x\n"), "the line of 'local' is not right");
  EXPECT_EQ(WhyNot("upstream 10.0.0.1 70000\nlocal 5\n"), "the line of 'upstream' is not right");
  EXPECT_EQ(WhyNot("upstream 10.0.0.1\nlocal 5\n"), "the line of 'upstream' is not right");
}

TEST(Settings, ASecretOfAnotherLengthIsRefusedAndNotRepeated) {
  EXPECT_EQ(WhyNot("secret abcd\nlocal 5\n"), "the line of 'secret' is not right");
  EXPECT_EQ(WhyNot("secret " + std::string(64, 'x') + "\nlocal 5\n"),
            "the line of 'secret' is not right");
}

TEST(Settings, SeveralNodesWithoutASecretAreRefused) {
  EXPECT_EQ(WhyNot("listen 4\nlocal 5\n"), "there are several nodes, and no secret");
  EXPECT_EQ(WhyNot("upstream 10.0.0.1 7000\nlocal 5\n"), "there are several nodes, and no secret");
  EXPECT_EQ(WhyNot(kSecret + "listen 4\nlocal 5\n"), "");
}

TEST(Settings, ANodeWithoutARankIsRefused) {
  EXPECT_EQ(WhyNot("nodes 1\n"), "there is no rank here");
}

}  // namespace
}  // namespace muster::rendezvous
