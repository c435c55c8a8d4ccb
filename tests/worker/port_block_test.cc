#include "worker/rendezvous/port_block.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "common/text/strings.h"
#include "worker/rendezvous/port_holder.h"

namespace muster::worker {
namespace {

// Three blocks outside of the kernel's ephemeral range, under a name that no other process uses.
common::DeviceKind KindOf(const std::string& name) {
  return {.name = name, .first_port = 29600, .last_port = 29691, .ports = 4};
}
// Ends the lease at once.
uint32_t FirstOf(const common::DeviceKind& kind, uint64_t turn) {
  const auto block = LeasePortBlock(kind, turn);
  EXPECT_TRUE(block.ok()) << block.status();
  return block.ok() ? block->first : 0;
}

TEST(PortBlockTest, TwoLiveAttemptsNeverGetOneBlock) {
  const std::string name = common::StrCat("test-", getpid());
  const common::DeviceKind kind = KindOf(name);
  const auto one = LeasePortBlock(kind, 0), two = LeasePortBlock(kind, 0);
  ASSERT_TRUE(one.ok() && two.ok()) << one.status() << two.status();
  EXPECT_EQ(one->first, 29600);
  EXPECT_EQ(two->first, 29604);
  // What keeps a block is not in the way of the runtime's own bind.
  EXPECT_TRUE(PortHolder::HoldExactly(29600).ok());
}

TEST(PortBlockTest, ABlockIsFreeOnceItsLastHolderIsGone) {
  const std::string name = common::StrCat("test-", getpid());
  const common::DeviceKind kind = KindOf(name);
  auto block = LeasePortBlock(kind, 0);
  ASSERT_TRUE(block.ok()) << block.status();
  common::UniqueFd of_the_shim(dup(block->claim.get()));
  block->claim.Reset();
  EXPECT_EQ(FirstOf(kind, 0), 29604u);
  of_the_shim.Reset();
  EXPECT_EQ(FirstOf(kind, 0), 29600u);
}

TEST(PortBlockTest, ABlockWithAPortThatAnotherProgramBoundIsSkipped) {
  const std::string name = common::StrCat("test-", getpid());
  const auto bound = PortHolder::HoldExactly(29602);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_EQ(FirstOf(KindOf(name), 0), 29604u);
}

TEST(PortBlockTest, TheTurnChoosesAndWrapsAroundTheEnd) {
  const std::string name = common::StrCat("test-", getpid());
  const common::DeviceKind kind = KindOf(name);
  EXPECT_EQ(FirstOf(kind, 22), 29688u);
  EXPECT_EQ(FirstOf(kind, 23), 29600u);
}

TEST(PortBlockTest, NoFreeBlockNamesTheRangeWhatIsInTheWayAndTheFix) {
  const std::string name = common::StrCat("test-", getpid());
  common::DeviceKind kind = KindOf(name);
  kind.last_port = 29608;  // two blocks and one port
  const auto bound = PortHolder::HoldExactly(29605);
  ASSERT_TRUE(bound.ok()) << bound.status();
  const auto held = LeasePortBlock(kind, 7);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(held->first, 29600);
  const auto none = LeasePortBlock(kind, 0);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(none.status().message(),
            common::StrCat("no block of 4 ports for ", name,
                           " ranks is free in 29600-29608: other attempts on this host lease 1, "
                           "other programs have bound ports in 1 (port 29605); fix: end what binds "
                           "them (ss -tanp), or wait until other ",
                           name, " jobs on this host end"));
}

TEST(PortBlockTest, KindsWithoutPortsLeaseNothing) {
  EXPECT_EQ(FirstOf(common::HostKind(), 0), 0u);
}

}  // namespace
}  // namespace muster::worker
