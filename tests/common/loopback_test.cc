#include "common/base/loopback.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

namespace muster::common {
namespace {

TEST(Loopback, IsAHostThatIsThisMachine) {
  for (const char* host : {"localhost", "::1", "127.0.0.1", "127.1.2.3"})
    EXPECT_TRUE(IsLoopbackHost(host)) << host;
  for (const char* host : {"", "127", "127.0.0.1.evil.example", "127.evil.example", "10.0.0.127",
                           "localhost.evil.example", "::", "127.0.0.300"})
    EXPECT_FALSE(IsLoopbackHost(host)) << host;
  EXPECT_FALSE(IsLoopbackHost(std::string_view("127.0.0.1\0.evil.example", 23)));
}

bool IsLoopback4(const char* text) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  inet_pton(AF_INET, text, &address.sin_addr);
  return IsLoopback(reinterpret_cast<const sockaddr&>(address));
}

bool IsLoopback6(const char* text) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  inet_pton(AF_INET6, text, &address.sin6_addr);
  return IsLoopback(reinterpret_cast<const sockaddr&>(address));
}

TEST(Loopback, IsAnAddressThatIsThisMachine) {
  EXPECT_TRUE(IsLoopback4("127.0.0.1"));
  EXPECT_TRUE(IsLoopback4("127.255.0.9"));
  EXPECT_FALSE(IsLoopback4("128.0.0.1"));
  EXPECT_TRUE(IsLoopback6("::1"));
  EXPECT_FALSE(IsLoopback6("::2"));
}

}  // namespace
}  // namespace muster::common
