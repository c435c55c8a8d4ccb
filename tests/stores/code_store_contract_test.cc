// What every store of jobs' code promises.
#include "coordinator/stores/code_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "common/hash/sha256.h"
#include "muster/v1/job.pb.h"
#include "tests/stores/engines.h"
#include "tests/stores/opened_journal.h"

namespace muster::coordinator {
namespace {

constexpr int64_t kHour = 3'600'000;

CodeObject ObjectOf(const std::string& text, uint64_t size) {
  return {.sha256 = common::Sha256Hex(text), .size = size};
}
std::vector<std::string> NamesOf(const std::vector<CodeObject>& objects) {
  std::vector<std::string> names;
  for (const CodeObject& object : objects) names.push_back(object.sha256);
  return names;
}

class CodeStoreContract : public StoreContract {
 protected:
  void SetUp() override {
    engine().OpenJournal()->Stop().IgnoreError();  // creates the tables
    Reopen();
  }
  void Reopen() { store = engine().OpenCodeStore(); }
  bool Has(const std::string& project, const CodeObject& object, int64_t now_ms = 0) {
    return store->Use(project, {object}, now_ms)->front();
  }

  std::unique_ptr<CodeStore> store;
  const CodeObject a = ObjectOf("a", 10'000);
  const CodeObject b = ObjectOf("b", 10);
  const CodeName code{.project = "vision", .tree = a.sha256, .placement = b.sha256};
};

TEST_P(CodeStoreContract, AProjectHasWhatItUploadedAndNothingElse) {
  ASSERT_TRUE(store->Add("vision", a, "user:alice#5f0c", 1).ok());
  Reopen();
  EXPECT_TRUE(Has("vision", a));
  EXPECT_FALSE(Has("speech", a));
  EXPECT_FALSE(Has("vision", b));
  EXPECT_FALSE(Has("vision", {.sha256 = a.sha256, .size = a.size + 1}));
  EXPECT_EQ(*store->Referenced({a.sha256, b.sha256}), std::vector<std::string>{a.sha256});
}

TEST_P(CodeStoreContract, AProjectsBytesAreCountedOnceAndSmallObjectsAsWholeBlocks) {
  EXPECT_EQ(*store->UsedBytes("vision"), 0u);
  ASSERT_TRUE(store->Add("vision", a, "user:alice#5f0c", 1).ok());
  ASSERT_TRUE(store->Add("vision", a, "user:alice#5f0c", 2).ok());
  ASSERT_TRUE(store->Add("vision", b, "user:alice#5f0c", 2).ok());
  ASSERT_TRUE(store->Add("speech", a, "user:alice#5f0c", 2).ok());
  EXPECT_EQ(*store->UsedBytes("vision"), 10'000 + CodeStore::kLeastBytes);
}

TEST_P(CodeStoreContract, AnObjectCountsAsWhoBroughtItFirst) {
  ASSERT_TRUE(store->Add("vision", a, "user:alice#5f0c", 1).ok());
  ASSERT_TRUE(store->Add("vision", a, "user:bob", 2).ok());
  ASSERT_TRUE(store->Add("speech", a, "user:bob", 2).ok());
  ASSERT_TRUE(store->Add("speech", b, "user:alice#5f0c", 2).ok());
  Reopen();
  EXPECT_EQ(*store->GivenBytes("user:alice#5f0c"), 10'000 + CodeStore::kLeastBytes);
  EXPECT_EQ(*store->GivenBytes("user:alice"), 0u);
  EXPECT_EQ(*store->Given(),
            (std::map<std::string, uint64_t>{{"user:alice#5f0c", 10'000 + CodeStore::kLeastBytes},
                                             {"user:bob", 10'000}}));
}

TEST_P(CodeStoreContract, CodeHasItsObjectsInOrderAndOnlyThoseOfItsProject) {
  ASSERT_TRUE(store->Add("vision", a, "user:alice#5f0c", 1).ok());
  EXPECT_EQ(store->PutCode(code, NamesOf({a, b}), 1).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(store->ObjectsOf(code)->empty()) << "not all of them are here";
  ASSERT_TRUE(store->Add("speech", b, "user:alice#5f0c", 1).ok());
  EXPECT_FALSE(store->PutCode(code, NamesOf({a, b}), 1).ok());
  ASSERT_TRUE(store->Add("vision", b, "user:alice#5f0c", 1).ok());
  ASSERT_TRUE(store->PutCode(code, NamesOf({a, b}), 1).ok());
  ASSERT_TRUE(store->PutCode(code, NamesOf({a, b}), 2).ok());
  Reopen();
  std::vector<std::string> sorted = NamesOf({a, b});
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(*store->ObjectsOf(code), sorted);
  CodeName other = code;
  other.project = "speech";
  EXPECT_TRUE(store->ObjectsOf(other)->empty());
}

TEST_P(CodeStoreContract, ManyObjectsAreRecordedInBatches) {
  std::vector<CodeObject> many;
  for (int i = 0; i < 5'000; ++i) many.push_back(ObjectOf(std::to_string(i), 1));
  for (const CodeObject& each : many)
    ASSERT_TRUE(store->Add("vision", each, "user:alice#5f0c", 1).ok());
  ASSERT_TRUE(store->PutCode(code, NamesOf(many), 1).ok());
  EXPECT_EQ(store->ObjectsOf(code)->size(), many.size());
  const std::vector<bool> has = *store->Use("vision", many, 2 * kHour);
  EXPECT_EQ(std::count(has.begin(), has.end(), true), 5'000);
  ASSERT_TRUE(store->RemoveCode(code, 2).ok());
  EXPECT_TRUE(store->ObjectsOf(code)->empty());
  EXPECT_TRUE(store->RemoveObjects(2 * kHour, 3 * kHour, 10'000)->empty()) << "all used just now";
  EXPECT_EQ(store->RemoveObjects(2 * kHour + 1, 3 * kHour, 3'000)->size(), 3'000u);
  EXPECT_EQ(store->RemoveObjects(2 * kHour + 1, 3 * kHour, 3'000)->size(), 2'000u);
  EXPECT_EQ(*store->UsedBytes("vision"), 0u);
}

TEST_P(CodeStoreContract, WhatCodeUsesStaysAndTheRestGoesByItsLastUse) {
  const CodeObject loose = ObjectOf("loose", 7);
  for (const CodeObject& each : {a, b, loose})
    ASSERT_TRUE(store->Add("vision", each, "user:alice#5f0c", 1).ok());
  ASSERT_TRUE(store->PutCode(code, NamesOf({a, b}), 1).ok());
  EXPECT_EQ(*store->RemoveObjects(10, 20, 100), std::vector<std::string>{loose.sha256});
  EXPECT_TRUE(store->RemoveObjects(10, 20, 100)->empty()) << "the others count as used at 20";
  EXPECT_FALSE(Has("vision", loose));
  EXPECT_TRUE(Has("vision", a));
  ASSERT_EQ(*store->OldCode(10, 100), std::vector<CodeName>{code});
  EXPECT_TRUE(store->OldCode(1, 100)->empty());
  ASSERT_TRUE(store->KeepCode(code, 15).ok());
  ASSERT_TRUE(store->RemoveCode(code, 10).ok());
  EXPECT_FALSE(store->ObjectsOf(code)->empty()) << "it was used since";
  ASSERT_TRUE(store->RemoveCode(code, 16).ok());
  EXPECT_TRUE(store->ObjectsOf(code)->empty());
  EXPECT_EQ(store->RemoveObjects(30, 40, 100)->size(), 2u);
  EXPECT_TRUE(store->Referenced(NamesOf({a, b, loose}))->empty());
}

TEST_P(CodeStoreContract, TheLeastRecentlyUsedAreLookedAtFirst) {
  ASSERT_TRUE(store->Add("vision", a, "user:alice#5f0c", 5).ok());
  ASSERT_TRUE(store->Add("vision", b, "user:alice#5f0c", 3).ok());
  EXPECT_EQ(*store->RemoveObjects(10, 20, 1), std::vector<std::string>{b.sha256});
  EXPECT_EQ(*store->RemoveObjects(10, 20, 1), std::vector<std::string>{a.sha256});
}

TEST_P(CodeStoreContract, TheIndexKnowsWhichCodeAFinishedJobHas) {
  auto journal = engine().OpenJournal();
  std::promise<void> durable;
  journal->Start({.durable =
                      [&](uint64_t turn) {
                        if (turn == 2) durable.set_value();
                      },
                  .disk_full = [](bool) {},
                  .stuck = [](const absl::Status&) {},
                  .failed = [](const absl::Status& why) { ADD_FAILURE() << why; }});
  auto record = std::make_shared<v1::JobRecord>();
  record->set_id(7);
  record->set_name("train-7");
  record->mutable_spec()->set_project("vision");
  record->mutable_spec()->mutable_code()->set_tree(code.tree);
  record->mutable_spec()->mutable_code()->set_placement(code.placement);
  auto other = std::make_shared<v1::JobRecord>();
  other->set_id(8);
  other->set_name("train-8");
  journal->Append({.turn = 1, .facts = FactsOf({{record, {}}, {other, {}}})});
  journal->Append({.turn = 2});
  durable.get_future().get();
  const auto index = engine().OpenJobIndex();
  EXPECT_TRUE(*index->HasCode(code));
  CodeName elsewhere = code;
  elsewhere.project = "speech";
  EXPECT_FALSE(*index->HasCode(elsewhere)) << "another project's use tells nothing";
  journal->Append({.turn = 3, .facts = FactsOfRemoved({7})});
  EXPECT_TRUE(journal->Stop().ok());
  EXPECT_FALSE(*index->HasCode(code));
}

TEST(CodeNameTest, AJobWithoutAProjectIsOfTheDefaultOne) {
  v1::JobSpec spec;
  spec.mutable_code()->set_tree("t");
  EXPECT_EQ(CodeNameOf(spec).project, "default");
  spec.set_project("vision");
  EXPECT_EQ(CodeNameOf(spec).project, "vision");
}

INSTANTIATE_TEST_SUITE_P(Engines, CodeStoreContract, testing::ValuesIn(JournalKinds()), NameOfKind);

}  // namespace
}  // namespace muster::coordinator
