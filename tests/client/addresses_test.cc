// Lists of addresses: as typed, as a coordinator names them, as a context keeps them.
#include "client/connection/addresses.h"

#include <gtest/gtest.h>

#include "client/session/known_heads.h"
#include "common/address_list.h"

namespace muster::client {
namespace {

using List = std::vector<std::string>;

TEST(AddressesTest, AListIsSplitAtItsCommasAndASocketIsOneAddress) {
  EXPECT_EQ(SplitAddresses("a:7700"), List({"a:7700"}));
  EXPECT_EQ(SplitAddresses("a:7700,b:7700, [::1]:7700"), List({"a:7700", "b:7700", "[::1]:7700"}));
  EXPECT_EQ(SplitAddresses("a:7700,"), List({"a:7700", ""}));
  EXPECT_EQ(SplitAddresses("unix:/run/a,b"), List({"unix:/run/a,b"}));
  EXPECT_EQ(common::JoinAddresses({"a:1", "b:2"}), "a:1,b:2");
}

TEST(AddressesTest, MergingKeepsTheOrderAndDropsWhatIsThereTwice) {
  EXPECT_EQ(MergeAddresses({"b:1"}, {"a:1", "b:1", "c:1", "a:1"}), List({"b:1", "a:1", "c:1"}));
  List many;
  for (size_t i = 0; i < 2 * kAddressesMax; ++i) many.push_back("a:" + std::to_string(i + 1));
  EXPECT_EQ(MergeAddresses({}, many).size(), kAddressesMax);
}

TEST(AddressesTest, ListsOfOneClusterAreKnownByAnAddressThatTheyShare) {
  EXPECT_TRUE(ShareAddress("a:1,b:1", "b:1"));
  EXPECT_FALSE(ShareAddress("a:1,b:1", "c:1"));
  EXPECT_FALSE(ShareAddress("", "a:1"));
  EXPECT_TRUE(HaveSameAddresses({"a:1", "b:1"}, {"b:1", "a:1"}));
  EXPECT_FALSE(HaveSameAddresses({"a:1"}, {"b:1", "a:1"}));
}

TEST(AddressesTest, OnlyHostsAndPortsAreTakenFromACoordinator) {
  for (const char* good : {"a:1", "head-1.lab.example:7700", "10.0.0.1:65535", "[fe80::1]:7700"})
    EXPECT_TRUE(IsHostAndPort(good)) << good;
  for (const char* bad :
       {"", "a", ":1", "a:0", "a:65536", "a:x", "unix:/run/c.sock", "dns:a:1", "ipv4:10.0.0.1:1",
        "dns:///a:1", "a b:1", "a,b:1", "a\n:1", "[]:1", "fe80::1:7700"}) {
    EXPECT_FALSE(IsHostAndPort(bad)) << bad;
  }
  EXPECT_EQ(HostsAndPorts({"a:1", "unix:/x", "a:1", "b:1"}), List({"a:1", "b:1"}));
}

TEST(AddressesTest, AContextKeepsTheHeadsAndTheAddressThatWorked) {
  v1::GetServerResponse server;
  EXPECT_EQ(AddressesToKeep(server, "a:1"), List());
  server.add_heads("a:1");
  server.add_heads("b:1");
  EXPECT_EQ(AddressesToKeep(server, "a:1"), List({"a:1", "b:1"}));
  EXPECT_EQ(AddressesToKeep(server, "localhost:17700"), List({"a:1", "b:1", "localhost:17700"}));
  EXPECT_EQ(AddressesToKeep(server, "unix:/run/c.sock"), List());
}

}  // namespace
}  // namespace muster::client
