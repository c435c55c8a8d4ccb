// Output and metrics of before there was an object store, on their way into that.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "common/files/files.h"
#include "coordinator/local/log_reader.h"
#include "coordinator/local/log_store.h"
#include "coordinator/local/metric_store.h"
#include "coordinator/object_files/object_files.h"
#include "coordinator/packs/log_store.h"
#include "coordinator/packs/metric_store.h"
#include "coordinator/packs/output_move.h"
#include "coordinator/sqlite/journal.h"
#include "coordinator/sqlite/pack_names.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/stores/log_sender.h"
#include "tests/stores/metric_sender.h"

namespace muster::coordinator {
namespace {

constexpr char kMovedPrefix[] = "c/";

class NoTime final : public common::Clock {
 public:
  common::Now Read() const override { return {}; }
};

class MovedOutputTest : public ::testing::Test {
 protected:
  // A coordinator with an object store, after another one's.
  struct Coordinator {
    Coordinator(MovedOutputTest& test)
        : packs(std::make_shared<Packs>(
              *test.objects_, *test.names_, kMovedPrefix, NewPackTerm(++test.epoch_),
              std::make_unique<PackThreads>(4),
              PackPace{.every = std::chrono::milliseconds(5), .record_every = {}})),
          logs(packs, std::make_unique<LocalLogReader>(test.paths_), test.paths_),
          metrics(packs, test.paths_),
          move(
              packs, std::make_unique<LocalLogReader>(test.paths_), test.paths_,
              [this](uint64_t job) { return metrics.NoteFor(job); }, test.stop_) {}
    const std::shared_ptr<Packs> packs;
    PackLogStore logs;
    PackMetricStore metrics;
    OutputMove move;
  };

  MovedOutputTest() {
    EXPECT_TRUE(OpenSqliteJournal(paths_, nullptr, turns_).ok());
    objects_ = *ObjectFiles::Open(store_.path());
    names_ = *SqlitePackNames::Open(paths_, turns_, clock_, kMovedPrefix);
    job_.set_id(1);
    v1::Attempt* attempt = job_.add_attempts();
    for (const char* node : {"n1", "n2"}) {
      v1::NodePart* part = attempt->add_parts();
      part->set_node(node);
      part->set_first_rank(static_cast<uint32_t>(attempt->parts_size() - 1));
      part->set_local_world_size(1);
    }
  }
  // What two ranks on two nodes printed, several segments of the first one.
  void PrintBefore() {
    LocalLogStore store(paths_);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      // One that has heard nothing of the other rank.
      const auto sender = std::make_shared<LogSender>();
      const uint64_t most = rank == 0 ? 20 << 20 : 10'000;
      for (uint64_t at = 0; at < most;) {
        std::string line = std::to_string(rank) + " " + std::to_string(at);
        line += std::string(100'000 - line.size() - 1, 'x') + "\n";
        if (rank == 1) line = line.substr(0, 9'999) + "\n";
        store.Append(Chunk(rank, at, line, 1'000, at + line.size() >= most), sender);
        at += line.size();
      }
      sender->WaitFor(most);
    }
    text_ = Printed(store.Reader());
    EXPECT_GT(text_.size(), 20u << 20);
  }
  void MeasureBefore() {
    LocalMetricStore store(paths_);
    const auto sender = std::make_shared<MetricSender>();
    for (int i = 1; i <= 50; ++i) {
      store.Append(Batch(static_cast<uint64_t>(i), i, 1.0 / i), sender);
    }
    sender->WaitForCount(50);
  }
  // By both ranks, one after the other.
  static std::string Printed(const LogReader& reader) {
    std::string text;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      const auto cursor =
          reader.Open({.job = 1, .rank = rank, .stream = v1::LOG_STREAM_STDOUT}, 0, 1 << 20);
      Read(*cursor, UINT64_MAX, &text);
    }
    return text;
  }
  static void Read(LogCursor& cursor, uint64_t end, std::string* text) {
    while (text->size() < end) {
      const auto piece = *cursor.Peek();
      if (!piece.has_value()) return;
      if (piece->damaged > 0) *text += "<damaged>";
      *text += *cursor.Read(*piece);
      cursor.Advance();
    }
  }
  bool HasFiles() const {
    return common::Exists(paths_.LogDirectory(1)) || common::Exists(paths_.MetricDirectory(1));
  }
  size_t CountPacks() const { return objects_->List("", "")->objects.size(); }

  const TempDir dir_, store_;
  const Paths paths_{dir_.path()};
  const std::shared_ptr<WriteTurns> turns_ = std::make_shared<WriteTurns>();
  const NoTime clock_;
  std::unique_ptr<Objects> objects_;
  std::unique_ptr<PackNames> names_;
  std::atomic<bool> stop_ = false;
  uint64_t epoch_ = 0;
  v1::JobRecord job_;
  std::string text_;
};

TEST_F(MovedOutputTest, IsReadAllTheWhileAndByOthersAfterwards) {
  PrintBefore();
  MeasureBefore();
  Coordinator one(*this);
  EXPECT_EQ(one.move.Jobs(), std::vector<uint64_t>{1});
  // It is in the middle of a file when that goes.
  const auto cursor = one.logs.Reader().Open({.job = 1, .stream = v1::LOG_STREAM_STDOUT}, 0);
  std::string read;
  Read(*cursor, 11 << 20, &read);
  const absl::Status moved = one.move.Move(job_);
  ASSERT_TRUE(moved.ok()) << moved;
  EXPECT_FALSE(HasFiles());
  EXPECT_EQ(one.move.Jobs(), std::vector<uint64_t>{});
  Read(*cursor, UINT64_MAX, &read);
  EXPECT_TRUE(read == text_.substr(0, read.size()));
  EXPECT_GE(read.size(), 20u << 20);
  EXPECT_TRUE(Printed(one.logs.Reader()) == text_);
  EXPECT_EQ(names_->Lanes(PackKind::kLogs, 1, 0)->size(), 2u) << "a lane for each node";

  Coordinator other(*this);
  EXPECT_TRUE(Printed(other.logs.Reader()) == text_);
  EXPECT_EQ(ReadAll(other.metrics).size(), 50u);
  EXPECT_EQ(ListedAs(other.metrics).step(), 50);
  // It continues where the files ended: what its worker sends again is known.
  const auto sender = std::make_shared<LogSender>();
  v1::LogChunk again = Chunk(1, 0, "something else");
  again.set_node("n2");
  other.logs.Append(again, sender);
  EXPECT_EQ(sender->WaitFor(10'001).durable_offset(), 10'001u) << "with its end";
  EXPECT_TRUE(Printed(other.logs.Reader()) == text_);
}

TEST_F(MovedOutputTest, AKillAtAnyPointLosesNothing) {
  PrintBefore();
  int cut_off = 0;
  for (int kill = 0; kill < 2 && HasFiles(); ++kill) {
    Coordinator one(*this);
    stop_ = false;
    std::thread moves([&] { cut_off += absl::IsCancelled(one.move.Move(job_)) ? 1 : 0; });
    const size_t before = CountPacks();
    while (CountPacks() == before) std::this_thread::yield();
    stop_ = true;
    moves.join();
    EXPECT_TRUE(Printed(one.logs.Reader()) == text_);
  }
  EXPECT_GT(cut_off, 0);
  stop_ = false;
  Coordinator last(*this);
  EXPECT_TRUE(Printed(last.logs.Reader()) == text_);
  ASSERT_TRUE(last.move.Move(job_).ok());
  EXPECT_FALSE(HasFiles());
  EXPECT_TRUE(Printed(last.logs.Reader()) == text_);
}

TEST_F(MovedOutputTest, WhatContinuedInPacksStays) {
  {
    LocalLogStore store(paths_);
    const auto sender = std::make_shared<LogSender>();
    store.Append(Chunk(0, 0, "before\n"), sender);
    sender->WaitFor(7);
  }
  Coordinator one(*this);
  const auto sender = std::make_shared<LogSender>();
  v1::LogChunk next = Chunk(0, 7, "after\n");
  next.set_node("n1");
  one.logs.Append(next, sender);
  EXPECT_EQ(sender->WaitFor(13).durable_offset(), 13u);
  EXPECT_TRUE(absl::IsFailedPrecondition(one.move.Move(job_)));
  EXPECT_TRUE(HasFiles());
  EXPECT_EQ(ReadAll(Coordinator(*this).logs.Reader(), Everything()), "before\nafter\n");
}

TEST_F(MovedOutputTest, WhatIsDamagedStays) {
  PrintBefore();
  const std::string file =
      paths_.LogStream({.job = 1, .rank = 0, .stream = v1::LOG_STREAM_STDOUT}) + ".seg";
  ASSERT_TRUE(common::Exists(file));
  std::filesystem::resize_file(file, 5'000'000);
  Coordinator one(*this);
  const std::string before = Printed(one.logs.Reader());
  EXPECT_TRUE(absl::IsFailedPrecondition(one.move.Move(job_)));
  EXPECT_TRUE(HasFiles());
  EXPECT_TRUE(Printed(one.logs.Reader()) == before);
}

TEST_F(MovedOutputTest, ARankThatTheRecordDoesNotHaveStays) {
  PrintBefore();
  job_.mutable_attempts(0)->mutable_parts()->RemoveLast();
  Coordinator one(*this);
  EXPECT_TRUE(absl::IsFailedPrecondition(one.move.Move(job_)));
  EXPECT_TRUE(HasFiles());
  EXPECT_EQ(CountPacks(), 0u);
}

}  // namespace
}  // namespace muster::coordinator
