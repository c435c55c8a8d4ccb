// The number of a data directory's layout.
#include "coordinator/local/format.h"

#include <gtest/gtest.h>

#include "common/problem.h"
#include "coordinator/base/number_file.h"
#include "tests/coordinator/temp_dir.h"

namespace muster::coordinator {
namespace {

TEST(Format, IsWrittenOnceAndComparedFromThenOn) {
  const TempDir dir;
  const Paths paths{dir.path()};
  ASSERT_TRUE(CheckFormat(paths).ok());
  EXPECT_EQ(ReadNumbers(paths.Format(), 1), std::vector<int64_t>{2});
  EXPECT_TRUE(CheckFormat(paths).ok());
}

TEST(Format, AnotherOneIsRefusedAndLeftAsItIs) {
  const TempDir dir;
  const Paths paths{dir.path()};
  for (const int64_t other : {1, 3}) {
    ASSERT_TRUE(WriteNumbers(paths.Format(), {other}).ok());
    EXPECT_EQ(common::CodeOf(CheckFormat(paths)), "JC1603") << other;
    EXPECT_EQ(ReadNumbers(paths.Format(), 1), std::vector<int64_t>{other});
  }
}

}  // namespace
}  // namespace muster::coordinator
