// What a hostile coordinator may answer with in place of an address, a page or a code.
#include "identity/answer_checks.h"

#include <gtest/gtest.h>

#include <string>

#include "common/problem.h"

namespace muster::identity {
namespace {

constexpr char kCode[] = "JC1371";

TEST(AnswerChecksTest, AnEndpointIsHostAndPortAndNoSocketOfThisMachine) {
  for (const char* good :
       {"head:7700", "10.0.0.1:1", "[2001:db8::1]:65535", "a-b.example.org:7700"})
    EXPECT_TRUE(CheckEndpoint("head:7701", good).ok()) << good;
  for (const char* bad :
       {"", "head", "unix:/run/user/0/bus", "unix:x:7700", "head:0", "head:65536", "head:7700/x",
        "head:7700\n- server: evil:1", "a b:7700", "[::1]", "dns:///evil:7700", "root@head:7700"}) {
    EXPECT_EQ(common::CodeOf(CheckEndpoint("head:7701", bad)), kCode) << bad;
  }
}

TEST(AnswerChecksTest, APageIsAnAddressThatHtmlAndATerminalCanHold) {
  for (const char* good : {"http://127.0.0.1:7701/sign-in?ticket=0a", "https://id.example/device"})
    EXPECT_TRUE(CheckPage("head:7701", good).ok()) << good;
  for (const char* bad :
       {"", "javascript:alert(1)", "file:///etc/passwd", "https://x/\"><script>", "https://x/'",
        "https://x/\x1b]8;;", "https://x/\nhttps://y", "HTTPS://x", "data:text/html,x"}) {
    const absl::Status status = CheckPage("head:7701", bad);
    EXPECT_EQ(common::CodeOf(status), kCode) << bad;
    EXPECT_EQ(std::string(status.message()).find('\x1b'), std::string::npos);
  }
}

TEST(AnswerChecksTest, ACodeIsShortAndATerminalCanShowIt) {
  for (const char* good : {"WDJB-MJHT", "1234 5678"})
    EXPECT_TRUE(CheckUserCode("head:7701", good).ok()) << good;
  for (const std::string& bad :
       {std::string(), std::string("a\nb"), std::string("\x1b[2J"), std::string(65, 'A')}) {
    EXPECT_EQ(common::CodeOf(CheckUserCode("head:7701", bad)), kCode) << bad;
  }
}

}  // namespace
}  // namespace muster::identity
