// Logs in an object store: which packs there are, how they become fewer, what a quota removes, what is garbage.
#include "coordinator/packs/packs.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <set>

#include "coordinator/local/log_reader.h"
#include "coordinator/local/log_store.h"
#include "coordinator/object_files/object_files.h"
#include "coordinator/packs/log_store.h"
#include "coordinator/packs/merge.h"
#include "coordinator/periodic/object_garbage.h"
#include "coordinator/sqlite/journal.h"
#include "coordinator/sqlite/object_names.h"
#include "coordinator/sqlite/pack_names.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/stores/log_sender.h"

namespace muster::coordinator {
namespace {

constexpr int64_t kHourMs = 3'600'000;
constexpr char kPrefix[] = "c/";

class LivedByHand final : public common::Clock {
 public:
  common::Now Read() const override { return now; }
  common::Now now;
};

class PacksTest : public ::testing::Test {
 protected:
  PacksTest() {
    EXPECT_TRUE(OpenSqliteJournal(paths_, nullptr, turns_).ok());
    clock_.now.lived_ms = 100 * kHourMs;
    objects_ = *ObjectFiles::Open(store_.path());
    names_ = *SqlitePackNames::Open(paths_, turns_, clock_, kPrefix);
  }

  // A coordinator's, after another one's.
  std::unique_ptr<LogStore> Open(PackPace pace,
                                 std::chrono::milliseconds every = std::chrono::milliseconds(5)) {
    pace.every = every;
    pace.record_every = {};
    return std::make_unique<PackLogStore>(
        std::make_shared<Packs>(*objects_, *names_, kPrefix, NewPackTerm(++epoch_),
                                std::make_unique<PackThreads>(4), pace),
        std::make_unique<LocalLogReader>(paths_), paths_);
  }
  // Appends lines one by one, each in a separate pack. Returns them.
  std::string Write(LogStore& store, uint32_t rank, uint64_t from, int lines) {
    auto sender = std::make_shared<LogSender>();
    std::string text;
    for (int line = 0; line < lines; ++line) {
      const std::string bytes = "rank " + std::to_string(rank) + " line " + std::to_string(line) +
                                std::string(500, 'x') + "\n";
      store.Append(Chunk(rank, from + text.size(), bytes), sender);
      text += bytes;
      EXPECT_EQ(sender->WaitFor(from + text.size()).durable_offset(), from + text.size());
    }
    return text;
  }
  std::set<std::string> Keys() {
    std::set<std::string> keys;
    const Objects::Page page = *objects_->List("", "");
    for (const ObjectInfo& object : page.objects) keys.insert(object.key);
    return keys;
  }
  LanePacks TheLane() {
    const std::vector<LanePacks> lanes = *names_->Lanes(PackKind::kLogs, 1, std::nullopt);
    return lanes.at(0);
  }
  // For what the store does besides: each look lets its threads have a turn.
  static void WaitUntil(LogStore& store, const std::function<bool()>& holds) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!holds() && std::chrono::steady_clock::now() < until) store.Settle();
    EXPECT_TRUE(holds());
  }

  const TempDir dir_, store_;
  const Paths paths_{dir_.path()};
  const std::shared_ptr<WriteTurns> turns_ = std::make_shared<WriteTurns>();
  LivedByHand clock_;
  std::unique_ptr<Objects> objects_;
  std::unique_ptr<PackNames> names_;
  uint64_t epoch_ = 0;
};

TEST_F(PacksTest, ManyPacksBecomeFewAndAreReadWhole) {
  std::string text;
  for (int coordinator = 0; coordinator < 3; ++coordinator) {
    const auto store = Open({.merged = 4});
    text += Write(*store, 0, text.size(), 70);
    EXPECT_EQ(ReadAll(store->Reader(), Everything()), text);
    WaitUntil(*store, [&] { return NamesOf(TheLane()).size() < 25; });
    EXPECT_EQ(ReadAll(store->Reader(), Everything()), text);
  }
  std::set<uint32_t> levels;
  for (const MergedPack& merged : TheLane().merged) levels.insert(merged.level);
  EXPECT_GT(levels.size(), 1u);
  EXPECT_EQ(ReadAll(Open({})->Reader(), Everything()), text) << "by one that never saw it";
}

// A lane that was forgotten continues its numbers: an object is never put twice.
TEST_F(PacksTest, AfterALongSilenceNothingIsOverwritten) {
  const auto store = Open({.idle = std::chrono::milliseconds(1)});
  std::string text;
  for (int time = 0; time < 6; ++time) {
    text += Write(*store, 0, text.size(), 2);
    store->Settle();
  }
  EXPECT_EQ(ReadAll(store->Reader(), Everything()), text);
  EXPECT_EQ(ReadAll(Open({})->Reader(), Everything()), text);
  EXPECT_EQ(TheLane().runs.at(0).last, 12u);
}

// The segment that it is at became one with all that follow.
TEST_F(PacksTest, AReaderThatLagsBehindAMergeMissesNothing) {
  const auto store = Open({.merged = 4});
  std::string text = Write(*store, 0, 0, 3);
  const auto cursor = store->Reader().Open({.job = 1}, 0);
  std::string read;
  const auto read_on = [&] {
    while (const auto piece = *cursor->Peek()) {
      EXPECT_EQ(piece->damaged, 0u);
      read += *cursor->Read(*piece);
      cursor->Advance();
    }
  };
  read_on();
  text += Write(*store, 0, text.size(), 1);
  WaitUntil(*store, [&] { return TheLane().runs.at(0).first == 5; });
  read_on();
  EXPECT_EQ(read, text);
}

TEST_F(PacksTest, AnObjectThatIsLostIsAGapAndTheRestIsReadAndContinued) {
  std::string text = Write(*Open({}), 0, 0, 3);
  const std::string lost = PackKey(kPrefix, TheLane().lane, NamesOf(TheLane()).at(1));
  const std::string last = PackKey(kPrefix, TheLane().lane, NamesOf(TheLane()).at(2));
  ASSERT_TRUE(objects_->Delete({lost}).ok());
  const auto store = Open({.merged = 3});
  const std::string with_gap = ReadAll(store->Reader(), Everything());
  EXPECT_NE(with_gap.find(" damaged>"), std::string::npos);
  EXPECT_NE(with_gap.find("line 2"), std::string::npos);
  text += Write(*store, 0, text.size(), 2);
  WaitUntil(*store, [&] { return !TheLane().merged.empty(); });
  EXPECT_NE(ReadAll(store->Reader(), Everything()).find("line 1x"), std::string::npos);
  ASSERT_TRUE(objects_->Delete({last}).ok());
  EXPECT_TRUE(names_->Find(TheLane().lane).ok());
}

// What a sender waits for is answered when the job is removed: other jobs' output shares its credit.
TEST_F(PacksTest, ARemovedJobKeepsNoCredit) {
  const auto store = Open({}, std::chrono::milliseconds(60'000));
  auto sender = std::make_shared<LogSender>();
  store->Append(Chunk(0, 0, "waits for a minute"), sender);
  store->Remove(1);
  EXPECT_TRUE(sender->WaitFor(1).refused());
}

TEST_F(PacksTest, BeyondItsQuotaTheOldestIsRemovedAndTheLastLinesOfEachRankStay) {
  const auto store = Open({.merged = 8, .logs_bytes = 60'000});
  const std::string silent = Write(*store, 7, 0, 2);
  const std::string text = Write(*store, 0, 0, 150);
  WaitUntil(*store, [&] { return *names_->BytesOf(PackKind::kLogs, 1) <= 60'000; });
  const std::string kept = ReadAll(store->Reader(), Everything());
  EXPECT_NE(kept.find(" over quota>"), std::string::npos) << kept.substr(0, 200);
  EXPECT_EQ(kept.find("damaged"), std::string::npos);
  EXPECT_NE(kept.find(silent), std::string::npos) << "all that this rank ever said";
  EXPECT_NE(kept.find(text.substr(text.size() - 5000)), std::string::npos) << kept;
  EXPECT_LT(kept.size(), 80'000u);
  EXPECT_EQ(ReadAll(Open({})->Reader(), Everything()), kept);
}

TEST_F(PacksTest, AJobMayHaveLess) {
  const auto store = Open({.merged = 8});
  store->KeepAtMost(1, 40'000);
  Write(*store, 0, 0, 110);
  WaitUntil(*store, [&] { return *names_->BytesOf(PackKind::kLogs, 1) <= 40'000; });
  EXPECT_LT(store->StoredBytes(1), 50'000u);
}

TEST_F(PacksTest, WhatIsRemovedIsDeletedLaterAndWhatWasNeverRecordedToo) {
  const auto object_names = *SqliteObjectNames::Open(paths_, turns_, clock_);
  const auto unknown = [&](const std::vector<std::string>& keys) { return names_->Unknown(keys); };
  ObjectGarbage garbage(*objects_, *object_names, "c/blobs/", {{"c/logs/", unknown}});
  const auto store = Open({.merged = 4});
  Write(*store, 0, 0, 10);
  WaitUntil(*store, [&] { return TheLane().merged.size() >= 2; });
  // As of a coordinator that was deposed before it could record it; and what another program has there.
  ASSERT_TRUE(objects_->Put("c/logs/1/0/unnamed/1-00000000-1", std::string_view("orphan")).ok());
  ASSERT_TRUE(objects_->Put("c/logs/notes", std::string_view("not ours")).ok());
  ASSERT_TRUE(garbage.DeleteUnnamed(clock_.now.lived_ms).ok());
  clock_.now.lived_ms += 25 * kHourMs;
  ASSERT_TRUE(garbage.DeleteDoomed(clock_.now.lived_ms).ok());
  ASSERT_TRUE(garbage.DeleteUnnamed(clock_.now.lived_ms).ok());
  std::set<std::string> expected{"c/logs/notes"};
  for (const std::string& name : NamesOf(TheLane()))
    expected.insert(PackKey(kPrefix, TheLane().lane, name));
  EXPECT_EQ(Keys(), expected);
  store->Remove(1);
  EXPECT_EQ(ReadAll(store->Reader(), Everything()), "");
  EXPECT_TRUE(names_->Lanes(PackKind::kLogs, 1, std::nullopt)->empty());
  ASSERT_TRUE(garbage.DeleteDoomed(clock_.now.lived_ms + kHourMs).ok());
  EXPECT_EQ(Keys(), std::set<std::string>{"c/logs/notes"});
}

TEST_F(PacksTest, OutputOfBeforeIsReadAndContinued) {
  std::string text;
  {
    LocalLogStore before(paths_);
    text = Write(before, 0, 0, 3);
  }
  const auto store = Open({});
  EXPECT_EQ(ReadAll(store->Reader(), Everything()), text);
  text += Write(*store, 0, text.size(), 3);
  EXPECT_EQ(ReadAll(store->Reader(), Everything()), text);
  EXPECT_EQ(ReadAll(Open({})->Reader(), Everything()), text);
}

TEST_F(PacksTest, ANumberThatDoesNotFollowIsNotRecordedAndRepeatingChangesNothing) {
  const PackLane lane{.kind = PackKind::kLogs, .job = 3, .attempt = 1, .node = "a"};
  const PackTerm term{.epoch = 5, .life = "0badcafe"};
  const auto pack = [&](uint64_t number, uint32_t rank, const std::string& note) {
    return RecordedPack{.lane = lane,
                        .term = term,
                        .number = number,
                        .bytes = 10,
                        .first_rank = rank,
                        .last_rank = rank,
                        .note = note};
  };
  ASSERT_TRUE(names_->Record({pack(1, 4, "one")}).ok());
  EXPECT_TRUE(absl::IsAborted(names_->Record({pack(3, 4, "")})));
  ASSERT_TRUE(names_->Record({pack(1, 4, "one"), pack(2, 2, ""), pack(3, 9, "")}).ok());
  const LanePacks packs = **names_->Find(lane);
  EXPECT_EQ(NamesOf(packs),
            (std::vector<std::string>{"5-0badcafe-1", "5-0badcafe-2", "5-0badcafe-3"}));
  EXPECT_EQ(packs.bytes, 30u);
  EXPECT_EQ(packs.first_rank, 2u);
  EXPECT_EQ(packs.last_rank, 9u);
  EXPECT_EQ(packs.note, "one");
  PackMerge merge{.lane = lane,
                  .made = {.place = 1, .name = "5-0badcafe-m1", .level = 1, .bytes = 25},
                  .merged = {},
                  .runs = {{.term = term, .first = 1, .last = 2}},
                  .freed = 12};
  ASSERT_TRUE(names_->Merge(merge).ok());
  merge.made.name = "5-0badcafe-m2";
  EXPECT_TRUE(absl::IsAborted(names_->Merge(merge))) << "of packs that are merged already";
  EXPECT_EQ(NamesOf(**names_->Find(lane)),
            (std::vector<std::string>{"5-0badcafe-m1", "5-0badcafe-3"}));
  EXPECT_EQ(*names_->BytesOf(PackKind::kLogs, 3), 18u);
  const std::string key = PackKey(kPrefix, lane, "5-0badcafe-");
  EXPECT_EQ(*names_->Unknown({key + "1", key + "3", key + "4", key + "m1", key + "m2", key + "m3",
                              "c/logs/other"}),
            (std::vector<std::string>{key + "4", key + "m3"}));
  // Another coordinator continues the lane.
  RecordedPack next = pack(1, 4, "");
  next.term = {.epoch = 6, .life = "00000001"};
  ASSERT_TRUE(names_->Record({next}).ok());
  EXPECT_EQ(NamesOf(**names_->Find(lane)).back(), "6-00000001-1");
  EXPECT_EQ((*names_->Find(lane))->note, "one") << "until there is a newer one";
  EXPECT_EQ(*names_->Jobs(PackKind::kLogs), std::vector<uint64_t>{3});
  EXPECT_EQ(*names_->Jobs(PackKind::kMetrics), std::vector<uint64_t>{});
  EXPECT_TRUE(*names_->DoomSome(PackKind::kLogs, 3));
  EXPECT_FALSE(*names_->DoomSome(PackKind::kLogs, 3));
  EXPECT_TRUE(names_->Unknown({key + "3", key + "m1"})->empty()) << "doomed";
}

TEST_F(PacksTest, ADirectoryThatIsDamagedOrOutOfRangeIsRefused) {
  PackDirectory directory{.lane = {.kind = PackKind::kLogs, .job = 1, .attempt = 0, .node = {}},
                          .segments = {{.stream = {0, 1}, .end_offset = 5, .length = 5}}};
  const std::string good = EncodePackDirectory(directory);
  ASSERT_TRUE(DecodePackDirectory(good).ok());
  EXPECT_EQ(*PackDirectoryBytesOf(good), good.size());
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    EXPECT_TRUE(absl::IsDataLoss(DecodePackDirectory(bad).status())) << at;
    EXPECT_TRUE(absl::IsDataLoss(DecodePackDirectory(good.substr(0, at)).status())) << at;
  }
  directory.segments[0].first_offset = 6;
  EXPECT_TRUE(absl::IsDataLoss(DecodePackDirectory(EncodePackDirectory(directory)).status()));
  directory.segments[0].first_offset = 0;
  directory.segments[0].position = UINT64_MAX;
  EXPECT_TRUE(absl::IsDataLoss(DecodePackDirectory(EncodePackDirectory(directory)).status()));
  directory.segments[0].position = 1'000'000;
  const auto merged = DecodePackDirectory(
      *MergePacks(directory.lane, {EncodePackDirectory(directory), "not a pack"}));
  EXPECT_EQ(merged->segments.at(0).length, 0u) << "it was not there";
  EXPECT_EQ(merged->segments.at(0).end_offset, 5u);
}

}  // namespace
}  // namespace muster::coordinator
