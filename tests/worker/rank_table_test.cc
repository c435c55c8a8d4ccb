#include "worker/launch/rank_table.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/files/files.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::worker {
namespace {

v1::LaunchAttempt TwoNodes() {
  v1::LaunchAttempt launch;
  for (uint32_t i = 0; i < 2; ++i) {
    v1::RankTableNode& node = *launch.add_rank_table();
    node.set_address("10.0.0." + std::to_string(i + 1));
    node.set_first_rank(i);
    node.add_devices(4 + i);
    node.add_device_addresses("192.168.100." + std::to_string(104 + i));
  }
  return launch;
}

TEST(RankTable, HasEveryRankOfEveryNode) {
  EXPECT_EQ(RankTableText(TwoNodes()), R"({"version": "1.0", "server_count": "2", "server_list": [
  {"server_id": "10.0.0.1", "device": [
    {"device_id": "4", "device_ip": "192.168.100.104", "rank_id": "0"}], "host_nic_ip": "reserve"},
  {"server_id": "10.0.0.2", "device": [
    {"device_id": "5", "device_ip": "192.168.100.105", "rank_id": "1"}], "host_nic_ip": "reserve"}
], "status": "completed"}
)");
}

TEST(RankTable, ABadOneIsNone) {
  EXPECT_EQ(RankTableText(v1::LaunchAttempt()), "");
  v1::LaunchAttempt launch = TwoNodes();
  launch.mutable_rank_table(1)->set_address("node-b");
  EXPECT_EQ(RankTableText(launch), "");
  launch = TwoNodes();
  launch.mutable_rank_table(1)->add_devices(7);
  EXPECT_EQ(RankTableText(launch), "");
  launch = TwoNodes();
  launch.mutable_rank_table(0)->set_device_addresses(0, "\"");
  EXPECT_EQ(RankTableText(launch), "");
}

TEST(RankTable, IsAReadOnlyFileAndNotALink) {
  char name[] = "/tmp/rank_table.XXXXXX";
  const std::string directory = mkdtemp(name);
  const Paths paths(directory, directory);
  const AttemptKey key{7, 0};
  ASSERT_TRUE(common::MakeDirectories(paths.CredentialDir(key)).ok());
  EXPECT_TRUE(WriteRankTable(paths, key, v1::LaunchAttempt(), {}).ok());
  EXPECT_FALSE(common::ReadFile(paths.RankTable(key)).ok()) << "the launch has no table";
  ASSERT_TRUE(WriteRankTable(paths, key, TwoNodes(), {}).ok());
  struct stat info {};
  ASSERT_EQ(lstat(paths.RankTable(key).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode, static_cast<mode_t>(S_IFREG | 0400)) << "HCCL refuses a link";
  EXPECT_EQ(*common::ReadFile(paths.RankTable(key)), RankTableText(TwoNodes()));
  EXPECT_TRUE(common::RemoveTree(directory).ok());
}

}  // namespace
}  // namespace muster::worker
