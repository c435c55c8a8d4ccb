#include "worker/rendezvous/port_holder.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace muster::worker {
namespace {

enum class Reuse { kNo, kAddress, kPort };

// 0 if such a listener can be created, otherwise its errno.
int Listen(int family, uint16_t port, Reuse reuse) {
  common::UniqueFd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errno;
  const int one = 1;
  if (reuse != Reuse::kNo) {
    const int option = reuse == Reuse::kAddress ? SO_REUSEADDR : SO_REUSEPORT;
    setsockopt(fd.get(), SOL_SOCKET, option, &one, sizeof one);
  }
  sockaddr_in6 v6{};
  sockaddr_in v4{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = v4.sin_port = htons(port);
  v4.sin_family = AF_INET;
  const sockaddr* address = family == AF_INET6 ? reinterpret_cast<const sockaddr*>(&v6)
                                               : reinterpret_cast<const sockaddr*>(&v4);
  const socklen_t size = family == AF_INET6 ? sizeof v6 : sizeof v4;
  if (bind(fd.get(), address, size) != 0) return errno;
  return listen(fd.get(), 4) == 0 ? 0 : errno;
}

bool HasIpv6() {
  common::UniqueFd fd(socket(AF_INET6, SOCK_STREAM, 0));
  return fd.valid();
}

// Spreads test runs that happen at the same time.
uint64_t Seed() { return static_cast<uint64_t>(getpid()) * 131; }

TEST(PortHolder, AHeldPortLetsAReusingListenerInAndNobodyElse) {
  PortHolder holder(PortRange{}, Seed());
  const auto held = holder.Hold(1, false);
  ASSERT_TRUE(held.ok()) << held.status();
  const uint16_t port = held->front().port;
  EXPECT_GE(port, 20000);
  EXPECT_LE(port, 28999);
  EXPECT_EQ(Listen(AF_INET, port, Reuse::kAddress), 0);
  EXPECT_EQ(Listen(AF_INET, port, Reuse::kNo), EADDRINUSE);
  EXPECT_EQ(Listen(AF_INET, port, Reuse::kPort), EADDRINUSE);
  if (!HasIpv6()) return;
  EXPECT_EQ(Listen(AF_INET6, port, Reuse::kAddress), 0);
  EXPECT_EQ(Listen(AF_INET6, port, Reuse::kNo), EADDRINUSE);
}

TEST(PortHolder, TwoHoldersNeverGetOnePort) {
  PortHolder one(PortRange{}, Seed() + 7), two(PortRange{}, Seed() + 7);
  const auto first = one.Hold(1, false);
  ASSERT_TRUE(first.ok());
  const auto second = two.Hold(1, false);
  ASSERT_TRUE(second.ok());
  EXPECT_NE(first->front().port, second->front().port);
  EXPECT_EQ(PortHolder::HoldExactly(first->front().port).status().code(),
            absl::StatusCode::kAlreadyExists);
}

TEST(PortHolder, APortThatWasLetGoCanBeTakenAgain) {
  PortHolder holder(PortRange{}, Seed() + 13);
  auto held = holder.Hold(1, false);
  ASSERT_TRUE(held.ok());
  const uint16_t port = held->front().port;
  held->clear();
  const auto again = PortHolder::HoldExactly(port);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->port, port);
}

TEST(PortHolder, ContiguousPortsAreARowAroundWhatIsTaken) {
  PortHolder scout(PortRange{}, Seed() + 29);
  auto row = scout.Hold(12, true);
  ASSERT_TRUE(row.ok());
  const uint16_t first = row->front().port;
  // Everything but the third is free: four in a row fit only after it.
  std::vector<HeldPort> taken;
  taken.push_back(std::move(row->at(2)));
  row->clear();
  PortHolder holder(PortRange{first, static_cast<uint16_t>(first + 11)}, 0);
  const auto held = holder.Hold(4, true);
  ASSERT_TRUE(held.ok()) << held.status();
  ASSERT_EQ(held->size(), 4u);
  EXPECT_EQ(held->front().port, first + 3);
  for (size_t i = 1; i < held->size(); ++i) {
    EXPECT_EQ(held->at(i).port, held->front().port + i);
  }
}

TEST(PortHolder, ReservedPortsAreNeverGiven) {
  PortHolder holder(PortRange{29400, 29400}, 0);
  EXPECT_EQ(holder.Hold(1, false).status().code(), absl::StatusCode::kResourceExhausted);
  PortHolder hccl(PortRange{60000, 60031}, 0);
  EXPECT_EQ(hccl.Hold(1, false).status().message(),
            "no 1 ports free in 60000-60031; fix: give the worker a wider --port-range");
}

TEST(PortHolder, WhereTheRangeIsUsedUpTheKernelChoosesAPortThatIsHeldAsWell) {
  const auto outside = PortHolder::HoldOutside();
  ASSERT_TRUE(outside.ok()) << outside.status();
  ASSERT_EQ(outside->size(), 1u);
  const uint16_t port = outside->front().port;
  EXPECT_GE(port, 1024);
  EXPECT_EQ(Listen(AF_INET, port, Reuse::kAddress), 0);
  EXPECT_EQ(Listen(AF_INET, port, Reuse::kNo), EADDRINUSE);
}

TEST(PortHolder, ARangeIsParsedOrRefusedWithTheFix) {
  const auto range = ParsePortRange("21000-21999");
  ASSERT_TRUE(range.ok());
  EXPECT_EQ(range->first, 21000);
  EXPECT_EQ(range->last, 21999);
  EXPECT_EQ(ParsePortRange("20000").status().message(),
            "port range '20000' is not two numbers; fix: use LO-HI, e.g. 20000-28999");
  for (const char* bad : {"", "-", "a-b", "10-20", "30000-20000", "20000-70000", "1-2-3"}) {
    EXPECT_EQ(ParsePortRange(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace muster::worker
