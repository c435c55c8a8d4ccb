#include "common/base/copy_on_write.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace muster::common {
namespace {

TEST(CopyOnWrite, CopiesShareTheValueUntilOneEditsIt) {
  CopyOnWrite<std::string> first;
  first.Edit() = "a";
  CopyOnWrite<std::string> second = first;
  EXPECT_EQ(&first.Get(), &second.Get());
  second.Edit() += "b";
  EXPECT_EQ(first.Get(), "a");
  EXPECT_EQ(second.Get(), "ab");
}

TEST(CopyOnWrite, TheOnlyOwnerEditsInPlace) {
  CopyOnWrite<std::string> first;
  const std::string* const place = &first.Get();
  { const CopyOnWrite<std::string> second = first; }
  first.Edit() = "a";
  EXPECT_EQ(&first.Get(), place);
  const CopyOnWrite<std::string> moved = std::move(first);
  EXPECT_EQ(&moved.Get(), place);
}

// One thread edits while others read copies that they were given before; ThreadSanitizer checks the rest.
TEST(CopyOnWrite, ReadersOnOtherThreadsKeepWhatTheyWereGiven) {
  constexpr int kRounds = 200;
  CopyOnWrite<std::vector<int>> value;
  value.Edit().assign(100, 0);
  std::vector<std::thread> readers;
  std::vector<int> wrong(kRounds, 0);
  for (int round = 0; round < kRounds; ++round) {
    readers.emplace_back([copy = value, round, &wrong] {
      for (const int each : copy.Get()) wrong[round] += each != round;
    });
    for (int& each : value.Edit()) each = round + 1;
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, std::vector<int>(kRounds, 0));
}

}  // namespace
}  // namespace muster::common
