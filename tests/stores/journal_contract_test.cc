// What the control loop and those who ask may rely on, whichever engine keeps the journal.
#include <algorithm>
#include <tuple>

#include "common/text/strings.h"
#include "tests/stores/engines.h"
#include "tests/stores/opened_journal.h"

namespace muster::coordinator {
namespace {

using JournalContract = StoreContract;
INSTANTIATE_TEST_SUITE_P(Engines, JournalContract, testing::ValuesIn(JournalKinds()), NameOfKind);

void WriteThreeEvents(Engine& engine) {
  OpenedJournal opened(engine.OpenJournal());
  opened.Start();
  opened.journal->Append(RecordOf(1, {ReasonEvent(1, 7, "a"), ReasonEvent(2, 7, "b")}));
  opened.journal->Append(RecordOf(2, {ReasonEvent(3, 8, "c")}));
  ASSERT_TRUE(opened.WaitFor(2).ok());
  ASSERT_TRUE(opened.journal->Stop().ok());
}

TEST_P(JournalContract, WhatWasCommittedIsReplayedInOrder) {
  WriteThreeEvents(engine());
  OpenedJournal again(engine().OpenJournal());
  const auto replayed = Replay(*again.journal);
  ASSERT_TRUE(replayed.ok()) << replayed.status();
  EXPECT_EQ(replayed->events, (std::vector<uint64_t>{1, 2, 3}));
}

TEST_P(JournalContract, TheEpochGrowsAtEveryStart) {
  const uint64_t first = engine().OpenJournal()->Epoch();
  EXPECT_GT(engine().OpenJournal()->Epoch(), first);
}

TEST_P(JournalContract, TheClusterKeepsItsIdOverEveryStart) {
  const std::string first = engine().OpenJournal()->ClusterId();
  EXPECT_EQ(first.size(), 16u);
  EXPECT_EQ(engine().OpenJournal()->ClusterId(), first);
  EXPECT_NE(GetParam().make()->OpenJournal()->ClusterId(), first);
}

TEST_P(JournalContract, AnOlderEpochCommitsNothingMore) {
  OpenedJournal old(engine().OpenJournal());
  old.Start();
  OpenedJournal newer(engine().OpenJournal());
  old.journal->Append(RecordOf(1, {ReasonEvent(1, 7, "late")}));
  const absl::Status status = old.WaitFor(1);
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_TRUE(Replay(*newer.journal)->events.empty());
}

TEST_P(JournalContract, ASnapshotStandsForTheEventsBeforeIt) {
  {
    OpenedJournal opened(engine().OpenJournal());
    opened.Start();
    JournalRecord record = RecordOf(1, {ReasonEvent(1, 7, "a"), ReasonEvent(2, 7, "b")});
    v1::Snapshot snapshot;
    snapshot.set_format(1);
    snapshot.set_seq(2);
    record.snapshot = std::make_shared<const v1::Snapshot>(snapshot);
    opened.journal->Append(std::move(record));
    opened.journal->Append(RecordOf(2, {ReasonEvent(3, 7, "c")}));
    ASSERT_TRUE(opened.WaitFor(2).ok());
  }
  OpenedJournal again(engine().OpenJournal());
  const auto replayed = Replay(*again.journal);
  ASSERT_TRUE(replayed.ok()) << replayed.status();
  EXPECT_EQ(replayed->snapshot, 2u);
  EXPECT_EQ(replayed->events, (std::vector<uint64_t>{3}));
  auto index = engine().OpenJobIndex();
  EXPECT_EQ(index->Events({.job = 7, .until = 9, .newest = 10})->size(), 3u);
}

// As where a projection was not so far yet.
TEST_P(JournalContract, ASnapshotMayBeOfAnEarlierTurn) {
  const auto append = [](OpenedJournal& opened, JournalRecord record, uint64_t of) {
    v1::Snapshot snapshot;
    snapshot.set_format(1);
    snapshot.set_seq(of);
    record.snapshot = std::make_shared<const v1::Snapshot>(snapshot);
    const uint64_t turn = record.turn;
    opened.journal->Append(std::move(record));
    ASSERT_TRUE(opened.WaitFor(turn).ok());
  };
  {
    OpenedJournal opened(engine().OpenJournal());
    opened.Start();
    opened.journal->Append(RecordOf(1, {ReasonEvent(1, 7, "a"), ReasonEvent(2, 8, "b")}));
    JournalRecord removal = RecordOf(2, {RemovedEvent(3, 7)});
    removal.facts = FactsOfRemoved({7});
    opened.journal->Append(std::move(removal));
    append(opened, {.turn = 3}, 2);
    ASSERT_TRUE(opened.journal->Stop().ok());
  }
  {
    OpenedJournal again(engine().OpenJournal());
    const auto replayed = Replay(*again.journal);
    ASSERT_TRUE(replayed.ok()) << replayed.status();
    EXPECT_EQ(replayed->snapshot, 2u);
    EXPECT_EQ(replayed->events, (std::vector<uint64_t>{3})) << "the end of job 7 is needed still";
    again.Start();
    append(again, {.turn = 1}, 3);
    ASSERT_TRUE(again.journal->Stop().ok());
  }
  EXPECT_TRUE(engine().OpenJobIndex()->Events({.job = 7, .until = 9, .newest = 9})->empty())
      << "and goes with the next one";
}

TEST_P(JournalContract, FinishedJobsAreListedUntilTheyAreRemoved) {
  OpenedJournal opened(engine().OpenJournal());
  opened.Start();
  JournalRecord record = RecordOf(1, {ReasonEvent(1, 1, "a"), ReasonEvent(2, 2, "b")});
  record.facts = FactsOf({Finished(1, "red-fox-1", "key-1"), Finished(2, "red-hen-2", "")});
  opened.journal->Append(std::move(record));
  ASSERT_TRUE(opened.WaitFor(1).ok());
  auto index = engine().OpenJobIndex();
  EXPECT_EQ(index->FindPrefix("red-", 9)->size(), 2u);
  EXPECT_EQ(**index->FindNamed("red-fox-1"), 1u);
  EXPECT_EQ((*index->Find(2))->name(), "red-hen-2");
  EXPECT_EQ(*index->Newest("uid:1"), 2u);
  EXPECT_EQ(index->Oldest(1)->front().name, "red-fox-1");
  JournalRecord removal = RecordOf(2, {RemovedEvent(3, 1)});
  removal.facts = FactsOfRemoved({1});
  v1::Snapshot snapshot;
  snapshot.set_format(1);
  snapshot.set_seq(3);
  removal.snapshot = std::make_shared<const v1::Snapshot>(snapshot);
  opened.journal->Append(std::move(removal));
  ASSERT_TRUE(opened.WaitFor(2).ok());
  EXPECT_FALSE(index->Find(1)->has_value());
  EXPECT_TRUE(index->Events({.job = 1, .until = 9, .newest = 9})->empty());
  EXPECT_EQ(index->List({.limit = 10})->size(), 1u);
}

// A clock that was set 40 days ahead once took 20 of 21 finished jobs.
TEST_P(JournalContract, OnlyLivedTimeMakesAFinishedJobOld) {
  OpenedJournal opened(engine().OpenJournal());
  opened.Start();
  JournalRecord record = RecordOf(1, {ReasonEvent(1, 1, "a")});
  record.facts =
      FactsOf({Finished(1, "of-1970-by-the-wall", ""), Finished(2, "another", "")}, 5'000);
  opened.journal->Append(std::move(record));
  JournalRecord later = RecordOf(2, {ReasonEvent(2, 2, "b")});
  // The row of job 2 is written again, as when one of its checkpoints goes: its age stays.
  later.facts = FactsOf({Finished(2, "another", ""), Finished(3, "third", "")}, 9'000);
  opened.journal->Append(std::move(later));
  ASSERT_TRUE(opened.WaitFor(2).ok());
  auto index = engine().OpenJobIndex();
  const FinishedCounts counts = *index->CountFinished(9'000, 5'000);
  EXPECT_EQ(counts.all, 3);
  EXPECT_EQ(counts.aged, 2);
  EXPECT_EQ(counts.arrived, 1);
  EXPECT_EQ(index->CountFinished(5'000, 9'000)->aged, 0);
  EXPECT_EQ(index->Oldest(2)->back().id, 2u);
}

TEST_P(JournalContract, KeysOfFinishedJobsAreKnownAgain) {
  {
    OpenedJournal opened(engine().OpenJournal());
    opened.Start();
    JournalRecord record = RecordOf(1, {ReasonEvent(1, 1, "a")});
    record.facts = FactsOf({Finished(1, "red-fox-1", "key-1")});
    opened.journal->Append(std::move(record));
    ASSERT_TRUE(opened.WaitFor(1).ok());
  }
  OpenedJournal again(engine().OpenJournal());
  EXPECT_EQ(KeysOf(*engine().OpenJobIndex()), (std::vector<std::string>{"uid:1/key-1"}));
}

// The first turn of a start.
TEST_P(JournalContract, WhatIsAppendedBeforeTheStartIsCommittedAfterIt) {
  OpenedJournal opened(engine().OpenJournal());
  opened.journal->Append(RecordOf(1, {ReasonEvent(1, 7, "a")}));
  opened.Start();
  ASSERT_TRUE(opened.WaitFor(1).ok());
  EXPECT_EQ(engine().OpenJobIndex()->Events({.until = 9, .newest = 9})->size(), 1u);
}

TEST_P(JournalContract, WhatIsAppendedIsPendingUntilItIsDurable) {
  OpenedJournal opened(engine().OpenJournal());
  opened.Start();
  for (uint64_t turn = 1; turn <= 100; ++turn) {
    opened.journal->Append(RecordOf(turn, {ReasonEvent(turn, 7, "a")}));
  }
  ASSERT_TRUE(opened.journal->Stop().ok()) << "it commits what is queued";
  EXPECT_EQ(opened.journal->PendingBytes(), 0u);
  EXPECT_EQ(engine().OpenJobIndex()->Events({.until = 200, .newest = 200})->size(), 100u);
}

TEST_P(JournalContract, EventsAreFoundByJobNodeAndRange) {
  OpenedJournal opened(engine().OpenJournal());
  opened.Start();
  std::vector<v1::Event> events = {ReasonEvent(1, 7, "a"), ReasonEvent(2, 8, "b"),
                                   ReasonEvent(3, 7, "c"), ReasonEvent(4, 7, "d")};
  events[2].set_node("node1");
  opened.journal->Append(RecordOf(1, events));
  ASSERT_TRUE(opened.WaitFor(1).ok());
  const auto index = engine().OpenJobIndex();
  const auto found = [&](const JobIndex::EventRange& range) {
    std::vector<uint64_t> seqs;
    const std::vector<v1::Event> events = *index->Events(range);
    for (const v1::Event& event : events) seqs.push_back(event.seq());
    return seqs;
  };
  EXPECT_EQ(found({.job = 7, .until = 9, .newest = 9}), (std::vector<uint64_t>{1, 3, 4}));
  EXPECT_EQ(found({.node = "node1", .until = 9, .newest = 9}), (std::vector<uint64_t>{3}));
  EXPECT_EQ(found({.after = 1, .until = 3, .newest = 9}), (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(found({.until = 9, .newest = 2}), (std::vector<uint64_t>{3, 4})) << "in order";
  EXPECT_EQ(found({.until = 9, .newest = 9, .bytes = 1}), (std::vector<uint64_t>{1}))
      << "at least one";
  EXPECT_EQ(found({.job = 7, .after = 1, .until = 9, .newest = 1, .bytes = 1 << 20}),
            (std::vector<uint64_t>{3}));
  EXPECT_EQ(*index->BeforeNewest({.job = 7, .until = 9, .newest = 2}), 2u)
      << "3 and 4 come after it";
  EXPECT_EQ(*index->BeforeNewest({.job = 7, .until = 9, .newest = 9}), 0u);
  EXPECT_EQ(*index->BeforeNewest({.after = 2, .until = 9, .newest = 9}), 2u);
}

TEST_P(JournalContract, FinishedJobsAreSelectedByLabelsBeforeTheLimitCounts) {
  {
    OpenedJournal opened(engine().OpenJournal());
    opened.Start();
    JournalRecord record = RecordOf(1, {ReasonEvent(1, 1, "a")});
    std::vector<FinishedJob> rows;
    for (uint64_t id = 1; id <= 60; ++id) {
      auto job =
          std::make_shared<v1::JobRecord>(*Finished(id, "job-" + std::to_string(id), "").record);
      (*job->mutable_spec()->mutable_labels())["sweep"] = std::to_string(id % 3);
      if (id % 20 == 0) (*job->mutable_spec()->mutable_labels())["best"] = "";
      FinishedJob row{job, {}};
      row.summary.set_id(id);
      *row.summary.mutable_labels() = job->spec().labels();
      rows.push_back(std::move(row));
    }
    record.facts = FactsOf(std::move(rows));
    opened.journal->Append(std::move(record));
    ASSERT_TRUE(opened.WaitFor(1).ok());
  }
  OpenedJournal again(engine().OpenJournal());  // they are kept
  const auto index = engine().OpenJobIndex();
  const auto listed = [&](const std::vector<std::string>& terms, uint64_t before, uint32_t limit) {
    std::vector<uint64_t> ids;
    const std::vector<v1::JobSummary> jobs =
        *index->List({.labels = *job::ParseLabelTerms(terms), .before_id = before, .limit = limit});
    for (const v1::JobSummary& job : jobs) ids.push_back(job.id());
    return ids;
  };
  EXPECT_EQ(listed({"sweep=1"}, 0, 3), (std::vector<uint64_t>{58, 55, 52}));
  EXPECT_EQ(listed({"sweep=1"}, 52, 3), (std::vector<uint64_t>{49, 46, 43})) << "the next page";
  EXPECT_EQ(listed({"best"}, 0, 9), (std::vector<uint64_t>{60, 40, 20}));
  EXPECT_EQ(listed({"best", "sweep!=0"}, 0, 9), (std::vector<uint64_t>{40, 20}));
  EXPECT_EQ(listed({"!best", "sweep=2"}, 10, 9), (std::vector<uint64_t>{8, 5, 2}));
  EXPECT_TRUE(listed({"sweep=9"}, 0, 9).empty());
}

std::vector<uint64_t> Listed(JobIndex& index, const JobIndex::Filter& filter) {
  std::vector<uint64_t> ids;
  const std::vector<v1::JobSummary> jobs = *index.List(filter);
  for (const v1::JobSummary& job : jobs) ids.push_back(job.id());
  return ids;
}

TEST_P(JournalContract, FinishedJobsAreFilteredNewestFirst) {
  OpenedJournal opened(engine().OpenJournal());
  opened.Start();
  JournalRecord record = RecordOf(1, {ReasonEvent(1, 1, "a")});
  record.facts =
      FactsOf({Finished(1, "train-1", ""), Finished(2, "eval", ""), Finished(12, "train-12", "")});
  opened.journal->Append(std::move(record));
  ASSERT_TRUE(opened.WaitFor(1).ok());
  const auto index = engine().OpenJobIndex();
  const auto listed = [&](const JobIndex::Filter& filter) { return Listed(*index, filter); };
  EXPECT_EQ(listed({.limit = 9}), (std::vector<uint64_t>{12, 2, 1}));
  EXPECT_EQ(listed({.limit = 2}), (std::vector<uint64_t>{12, 2}));
  EXPECT_EQ(listed({.before_id = 12, .limit = 9}), (std::vector<uint64_t>{2, 1}));
  EXPECT_EQ(listed({.finished_since_ms = 1'002, .limit = 9}), (std::vector<uint64_t>{12, 2}));
  EXPECT_EQ(listed({.owner = "uid:2", .limit = 9}), std::vector<uint64_t>());
  EXPECT_EQ(listed({.name_has = "ain-1", .limit = 9}), (std::vector<uint64_t>{12, 1}));
  EXPECT_EQ(listed({.name_has = "ain-1", .limit = 1}), std::vector<uint64_t>{12});
  EXPECT_EQ(listed({.states = {v1::JOB_STATE_FAILED}, .limit = 9}), std::vector<uint64_t>());
  EXPECT_EQ(listed({.states = {v1::JOB_STATE_FAILED, v1::JOB_STATE_SUCCEEDED}, .limit = 9}).size(),
            3u);
  EXPECT_EQ(*index->FindLabeled("train"), (std::vector<uint64_t>{1, 12}));
  EXPECT_TRUE(index->FindLabeled("trai")->empty());
  EXPECT_EQ(index->FindPrefix("train-", 1)->size(), 1u);
  EXPECT_FALSE(index->FindNamed("train")->has_value());
}

TEST_P(JournalContract, FinishedJobsOfOneNameAreOfTheirPeople) {
  OpenedJournal opened(engine().OpenJournal());
  opened.Start();
  JournalRecord record = RecordOf(1, {ReasonEvent(1, 1, "a")});
  std::vector<FinishedJob> rows;
  for (const auto& [id, owner, owner_id] :
       {std::tuple(1, "user:alice", ""), std::tuple(2, "user:alice", "5f0c"),
        std::tuple(3, "user:alice", "77aa"), std::tuple(4, "user:alice2", "")}) {
    FinishedJob job = Finished(static_cast<uint64_t>(id), common::StrCat("j-", id), "key");
    auto owned = std::make_shared<v1::JobRecord>(*job.record);
    owned->set_owner(owner);
    owned->set_owner_id(owner_id);
    job.record = owned;
    rows.push_back(std::move(job));
  }
  record.facts = FactsOf(std::move(rows));
  opened.journal->Append(std::move(record));
  ASSERT_TRUE(opened.WaitFor(1).ok());
  const auto index = engine().OpenJobIndex();
  const auto listed = [&](const JobIndex::Filter& filter) { return Listed(*index, filter); };
  EXPECT_EQ(listed({.owner = "user:alice", .limit = 9}), (std::vector<uint64_t>{3, 2, 1}));
  EXPECT_EQ(listed({.owner_key = "user:alice#5f0c", .limit = 9}), std::vector<uint64_t>{2});
  EXPECT_EQ(listed({.owner_key = "user:alice", .limit = 9}), std::vector<uint64_t>{1});
  EXPECT_EQ(*index->Newest("user:alice#5f0c"), 2u);
  EXPECT_EQ(*index->Newest("user:alice#0000"), 0u);
  EXPECT_EQ(index->Owners()->at(2), std::pair(uint64_t{3}, std::string("user:alice#77aa")));
  const RemoveInput::Job third = index->Oldest(9)->at(2);
  EXPECT_EQ(third.owner, "user:alice");
  EXPECT_EQ(third.owner_id, "77aa");
  ASSERT_TRUE(opened.journal->Stop().ok());
  OpenedJournal again(engine().OpenJournal());
  EXPECT_EQ(KeysOf(*engine().OpenJobIndex()),
            (std::vector<std::string>{"user:alice#5f0c/key", "user:alice#77aa/key",
                                      "user:alice/key", "user:alice2/key"}));
}

TEST_P(JournalContract, BlobsAreReferredToByThoseRowsThatStillNameThem) {
  OpenedJournal opened(engine().OpenJournal());
  opened.Start();
  const auto with_blobs = [](std::vector<std::string> blobs, const std::string& output) {
    FinishedJob job = Finished(1, "train-1", "");
    v1::JobRecord record = *job.record;
    v1::Checkpoint* checkpoint = record.add_checkpoints();
    for (const std::string& blob : blobs) checkpoint->add_files()->set_sha256(blob);
    if (!output.empty()) record.add_outputs()->add_files()->set_sha256(output);
    job.record = std::make_shared<const v1::JobRecord>(record);
    return job;
  };
  JournalRecord record = RecordOf(1, {ReasonEvent(1, 1, "a")});
  record.facts = FactsOf({with_blobs({"aa", "bb", "aa"}, "dd")});
  opened.journal->Append(std::move(record));
  ASSERT_TRUE(opened.WaitFor(1).ok());
  const auto index = engine().OpenJobIndex();
  EXPECT_EQ(index->BlobsOf(1)->size(), 3u);
  EXPECT_EQ(*index->Referenced({"aa", "cc", "bb", "dd"}),
            (std::vector<std::string>{"aa", "bb", "dd"}));
  JournalRecord rewritten = RecordOf(2, {});
  rewritten.facts = FactsOf({with_blobs({"bb"}, "")});
  opened.journal->Append(std::move(rewritten));
  ASSERT_TRUE(opened.WaitFor(2).ok());
  EXPECT_EQ(*index->Referenced({"aa", "bb", "dd"}), (std::vector<std::string>{"bb"}));
}

}  // namespace
}  // namespace muster::coordinator
