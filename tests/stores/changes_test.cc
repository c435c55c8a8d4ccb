// A transaction's changes in a copy of the database: made as they were, or refused whole.
#include "coordinator/sqlite/database/changes.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/coordinator/temp_dir.h"

namespace muster::coordinator {
namespace {

class ChangesTest : public ::testing::Test {
 protected:
  std::unique_ptr<Database> Open(const std::string& name, const std::string& tables) {
    auto database = *Database::Open(dir_.path() + "/" + name, Database::Mode::kReadWrite);
    EXPECT_TRUE(database->Execute(tables).ok());
    return database;
  }
  // Of one row in a table of three columns, with a table beside it.
  std::string Changes() {
    const auto leader = Open("leader",
                             "CREATE TABLE a(k INTEGER PRIMARY KEY, v, w);"
                             "CREATE TABLE b(k INTEGER PRIMARY KEY)");
    EXPECT_TRUE(leader->Execute("BEGIN").ok());
    const auto recorder = *ChangeRecorder::Begin(*leader);
    EXPECT_TRUE(leader->Execute("INSERT INTO b VALUES(1); INSERT INTO a VALUES(1, 2, 3)").ok());
    std::string changes = *recorder->Take();
    EXPECT_TRUE(leader->Execute("COMMIT").ok());
    return changes;
  }
  const TempDir dir_;
};

TEST_F(ChangesTest, ACopyWithTheSameTablesGetsThem) {
  const auto copy = Open("copy",
                         "CREATE TABLE a(k INTEGER PRIMARY KEY, v, w);"
                         "CREATE TABLE b(k INTEGER PRIMARY KEY)");
  const std::string changes = Changes();
  ASSERT_TRUE(ApplyChanges(*copy, changes).ok());
  EXPECT_EQ(*copy->Scalar("SELECT w FROM a"), 3);
  EXPECT_TRUE(absl::IsDataLoss(ApplyChanges(*copy, changes)));  // it has them already
}

TEST_F(ChangesTest, ANewerCopyWithMoreColumnsGetsThemToo) {
  const auto copy = Open("newer",
                         "CREATE TABLE a(k INTEGER PRIMARY KEY, v, w, x NOT NULL DEFAULT 7);"
                         "CREATE TABLE b(k INTEGER PRIMARY KEY)");
  ASSERT_TRUE(ApplyChanges(*copy, Changes()).ok());
  EXPECT_EQ(*copy->Scalar("SELECT w FROM a"), 3);
  EXPECT_EQ(*copy->Scalar("SELECT x FROM a"), 7);
}

// Of an older version: SQLite itself would skip them, and say that all is well.
TEST_F(ChangesTest, ACopyThatLacksATableOrAColumnRefusesAllOfThem) {
  for (const std::string tables :
       {"CREATE TABLE b(k INTEGER PRIMARY KEY)",
        "CREATE TABLE a(k INTEGER PRIMARY KEY, v); CREATE TABLE b(k INTEGER PRIMARY KEY)",
        "CREATE TABLE a(k, v, w, PRIMARY KEY(k, v)); CREATE TABLE b(k INTEGER PRIMARY KEY)"}) {
    const auto copy = Open("old" + std::to_string(tables.size()), tables);
    const absl::Status applied = ApplyChanges(*copy, Changes());
    EXPECT_TRUE(absl::IsDataLoss(applied)) << applied;
    EXPECT_NE(applied.message().find("table 'a' of 3 columns"), std::string::npos) << applied;
    EXPECT_EQ(*copy->Scalar("SELECT count(*) FROM b"), 0);
    std::remove((dir_.path() + "/leader").c_str());
  }
}

}  // namespace
}  // namespace muster::coordinator
