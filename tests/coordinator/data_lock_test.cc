// One coordinator per data directory.
#include <gtest/gtest.h>

#include <thread>

#include "coordinator/base/data_lock.h"
#include "tests/coordinator/temp_dir.h"

namespace muster::coordinator {
namespace {

TEST(DataLock, ACoordinatorThatIsStillDyingIsWaitedFor) {
  TempDir dir;
  const std::string path = dir.path() + "/LOCK";
  auto first = LockDataDirectory(path, std::chrono::milliseconds(0));
  ASSERT_TRUE(first.ok());
  const auto refused = LockDataDirectory(path, std::chrono::milliseconds(0));
  EXPECT_NE(refused.status().message().find("[JC1604]"), std::string::npos);
  std::thread dying([&] { first->Reset(); });
  EXPECT_TRUE(LockDataDirectory(path, std::chrono::seconds(20)).ok());
  dying.join();
}

}  // namespace
}  // namespace muster::coordinator
