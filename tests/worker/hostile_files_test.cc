// How the worker handles files that a rank has damaged, replaced or made endless: only the stream
// or the job that they belong to is affected.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/base/limits.h"
#include "common/hash/crc32c.h"
#include "common/kernel/shim_protocol.h"
#include "worker/base/descriptor_budget.h"
#include "worker/events/attempt_scanner.h"
#include "worker/output/log_forwarder.h"
#include "worker/output/metric_forwarder.h"
#include "worker/output/spool_reader.h"

namespace muster::worker {
namespace {

namespace fs = std::filesystem;
using common::SpoolRecord;

class HostileFilesTest : public ::testing::Test {
 protected:
  HostileFilesTest() {
    char name[] = "/tmp/mh-XXXXXX";
    directory_ = mkdtemp(name);
  }
  ~HostileFilesTest() override { fs::remove_all(directory_); }
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  void Append(const std::string& name, const std::string& bytes) {
    fs::create_directories(fs::path(Path(name)).parent_path());
    std::ofstream(Path(name), std::ios::binary | std::ios::app) << bytes;
  }
  void Index(const std::string& spool, const SpoolRecord& record) {
    Append(spool + ".idx", std::string(reinterpret_cast<const char*>(&record), sizeof record));
  }
  // As a shim does.
  void Say(const std::string& spool, const std::string& bytes) {
    const uint64_t offset = fs::exists(Path(spool)) ? fs::file_size(Path(spool)) : 0;
    Append(spool, bytes);
    Index(spool, {offset, bytes.size(), 1'000, 0});
  }
  std::string directory_;
};

TEST_F(HostileFilesTest, NoIndexRecordIsUsedBeforeItsNumbersAreChecked) {
  constexpr uint64_t kHuge = 1ull << 63;
  const SpoolRecord poison[] = {
      {kHuge, 0, 1, kHuge},                   // beyond every stream
      {common::kLogStreamBytesMax, 1, 1, 0},  // ends beyond it
      {8, ~0ull - 2, 1, 0},                   // its end overflows
      {8, 0, 1, 9},                           // more dropped than there was
      {2, 4, 1, 0},                           // starts before the previous one ends
      {8, 1 << 20, 1, 0},                     // more than the file contains
  };
  for (size_t i = 0; i < std::size(poison); ++i) {
    const std::string spool = "s" + std::to_string(i);
    Say(spool, "good");
    Index(spool, poison[i]);
    SpoolReader reader(Path(spool));
    const auto good = reader.Next(1000);
    ASSERT_TRUE(good.ok()) << i << good.status();
    EXPECT_EQ(good->data, "good") << i;
    EXPECT_GT(*reader.Available(), 0u) << i;  // so that it will be reached
    const auto bad = reader.Next(1000);
    EXPECT_EQ(bad.status().code(), absl::StatusCode::kDataLoss) << i;
  }
}

TEST_F(HostileFilesTest, AnIndexThatIsAFifoALinkOrEndlesslyEmptyHoldsUpNothing) {
  Append("a", "x");
  ASSERT_EQ(mkfifo(Path("a.idx").c_str(), 0600), 0);
  EXPECT_EQ(SpoolReader(Path("a")).Next(10).status().code(), absl::StatusCode::kInvalidArgument);
  Append("b", "x");
  fs::create_symlink("/dev/zero", Path("b.idx"));
  EXPECT_FALSE(SpoolReader(Path("b")).Next(10).ok());
  Append("c", "x");
  Append("c.idx", "");
  ASSERT_EQ(truncate(Path("c.idx").c_str(), 1ll << 40), 0);
  EXPECT_TRUE(SpoolReader(Path("c")).Next(10)->empty());
}

class ForwarderTest : public HostileFilesTest {
 protected:
  LogForwarder Make(size_t open_max = 1'024) {
    return LogForwarder(
        paths_, {"node-a", 1},
        {[] { return true; }, [this](const AttemptKey& key) { return key != slow_; },
         [this](v1::LogChunk chunk) { sent_.push_back(std::move(chunk)); },
         [](const AttemptKey&, uint32_t, common::Stream, uint64_t, uint64_t) {},
         [this](const AttemptKey& key) { drained_.push_back(key); },
         [this](const std::string& line) { notes_.push_back(line); }},
        open_max);
  }
  // Everything sent since the last call is durable.
  void Acknowledge(LogForwarder& forwarder) {
    std::vector<v1::LogChunk> chunks;
    chunks.swap(sent_);
    for (const v1::LogChunk& chunk : chunks) {
      v1::LogAck ack;
      ack.set_job(chunk.job());
      ack.set_attempt(chunk.attempt());
      ack.set_rank(chunk.rank());
      ack.set_stream(chunk.stream());
      ack.set_durable_offset(chunk.offset() + chunk.data().size() + (chunk.end() ? 1 : 0));
      text_[{chunk.job(), chunk.rank()}] += chunk.data();
      forwarder.OnAck(ack);
    }
  }
  // Sends everything there is to send.
  void Deliver(LogForwarder& forwarder) {
    for (int64_t now = 0; now < 20'000; now += 1'000) {
      forwarder.Pump(now);
      Acknowledge(forwarder);
    }
  }
  const Paths paths_{directory_, directory_};
  AttemptKey slow_{0, 0};
  std::vector<v1::LogChunk> sent_;
  std::vector<AttemptKey> drained_;
  std::vector<std::string> notes_;
  std::map<std::pair<uint64_t, uint32_t>, std::string> text_;
};

TEST_F(ForwarderTest, APoisonedIndexEndsOneStreamAndItsAttemptIsDrainedAllTheSame) {
  LogForwarder forwarder = Make();
  Say("attempts/7-0/spool/rank-0.stdout", "before");
  Index("attempts/7-0/spool/rank-0.stdout", {1ull << 63, 0, 1, 1ull << 63});
  Say("attempts/7-0/spool/rank-0.stderr", "the other stream");
  Say("attempts/8-0/spool/rank-0.stdout", "the neighbor");
  for (const uint64_t job : {7, 8}) forwarder.Add({job, 0}, 0, 1);
  for (const uint64_t job : {7, 8}) forwarder.Ended({job, 0});  // even if it has ended already
  Deliver(forwarder);
  EXPECT_EQ((text_[{7, 0}]), "beforethe other stream");
  EXPECT_EQ((text_[{8, 0}]), "the neighbor");
  EXPECT_EQ(drained_.size(), 2u);
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_NE(notes_[0].find("output abandoned job=7 attempt=0 rank=0"), std::string::npos);
  EXPECT_NE(notes_[0].find("is beyond what a stream may hold"), std::string::npos) << notes_[0];
}

TEST_F(ForwarderTest, AcknowledgedOffsetsThatSomebodyInventedAreNotTaken) {
  Say("attempts/7-0/spool/rank-0.stdout", "all of it");
  Append("attempts/7-0/spool/acked", "0 0 9223372036854775808\n0 1 -5\n99999999999999999999 0 1\n");
  LogForwarder forwarder = Make();
  forwarder.Add({7, 0}, 0, 1);
  forwarder.Ended({7, 0});
  Deliver(forwarder);
  EXPECT_EQ(drained_.size(), 1u);
  for (const v1::LogChunk& chunk : sent_) EXPECT_LE(chunk.offset(), 9u);
}

TEST_F(ForwarderTest, ARestartedWorkerResumesWhereEachStreamWasAcknowledged) {
  constexpr uint64_t kRestMost = 2 << 20;  // trimmed, and so saved, in steps of 1 MiB
  const std::string acked = directory_ + "/attempts/7-0/spool/acked";
  const auto say = [this](int pieces) {
    for (int piece = 0; piece < pieces; ++piece) {
      Say("attempts/7-0/spool/rank-3.stdout", std::string(1 << 20, 'a'));
      Say("attempts/7-0/spool/rank-4.stderr", std::string(1 << 20, 'b'));
    }
  };
  {
    LogForwarder forwarder = Make();
    forwarder.Add({7, 0}, 3, 2);
    say(3);
    forwarder.Grew({7, 0});
    Deliver(forwarder);
    ASSERT_EQ(fs::file_size(acked), 4 * 64u);
    // From now on a line is replaced in place.
    fs::create_hard_link(acked, acked + ".same");
    say(3);
    forwarder.Grew({7, 0});
    Deliver(forwarder);
    EXPECT_TRUE(fs::equivalent(acked, acked + ".same"));
  }
  const auto firsts = [this] {
    LogForwarder forwarder = Make();
    forwarder.Add({7, 0}, 3, 2);
    forwarder.Pump(0);
    std::map<uint32_t, uint64_t> offsets;
    for (const v1::LogChunk& chunk : std::exchange(sent_, {}))
      offsets.emplace(chunk.rank(), chunk.offset());
    return offsets;
  };
  for (const auto& [rank, offset] : firsts()) {
    EXPECT_GT(offset, (6 << 20) - kRestMost) << rank;
    EXPECT_LE(offset, 6 << 20) << rank;
  }
  fs::resize_file(acked, 64);  // nothing is known of rank 4 any more
  EXPECT_EQ(firsts()[4], 0u);
  EXPECT_GT(firsts()[3], 0u);
}

TEST_F(ForwarderTest, AnEndBehindTheIndexIsNotWaitedForForEver) {
  LogForwarder forwarder = Make();
  Say("attempts/7-0/spool/rank-0.stdout", "short");
  forwarder.Add({7, 0}, 0, 1);
  forwarder.Closed({7, 0}, 0, common::Stream::kStdout, 1ull << 62);
  forwarder.Ended({7, 0});
  Deliver(forwarder);
  EXPECT_EQ(drained_.size(), 1u);
  EXPECT_EQ((text_[{7, 0}]), "short");
}

TEST_F(ForwarderTest, AHundredRanksAreReadExactlyWithFourStreamsOpenAtATime) {
  const auto open_files = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  LogForwarder forwarder = Make(4);
  forwarder.Add({7, 0}, 0, 100);
  const auto before = open_files();
  for (int round = 0; round < 3; ++round) {
    for (int rank = 0; rank < 100; ++rank) {
      Say("attempts/7-0/spool/rank-" + std::to_string(rank) + ".stdout",
          std::to_string(rank) + "." + std::to_string(round) + " ");
    }
    forwarder.Grew({7, 0});
    Deliver(forwarder);
    EXPECT_LE(open_files(), before + 8);
  }
  EXPECT_EQ((text_[{7, 42}]), "42.0 42.1 42.2 ");
}

TEST_F(ForwarderTest, StreamsWhoseCopiesDoNotKeepUpWaitAloneAndGoOnLater) {
  LogForwarder forwarder = Make();
  slow_ = {7, 0};
  for (const uint64_t job : {7, 8}) {
    Say("attempts/" + std::to_string(job) + "-0/spool/rank-0.stdout", "text");
    forwarder.Add({job, 0}, 0, 1);
  }
  Deliver(forwarder);
  EXPECT_EQ((text_[{7, 0}]), "");
  EXPECT_EQ((text_[{8, 0}]), "text");
  slow_ = {0, 0};
  Deliver(forwarder);
  EXPECT_EQ((text_[{7, 0}]), "text");
}

TEST_F(HostileFilesTest, MetricsSpeakForTheirOwnRankWhateverTheFileSays) {
  const Paths paths(directory_, directory_);
  v1::MetricBatch batch;
  batch.set_source("socket");
  batch.set_seq(1);
  batch.set_job(999);  // of another job
  batch.set_rank(5);
  const std::string bytes = batch.SerializeAsString();
  const uint32_t header[2] = {static_cast<uint32_t>(bytes.size()), common::Crc32c(bytes)};
  Append("attempts/7-0/metrics/rank-0.batches",
         std::string(reinterpret_cast<const char*>(header), sizeof header) + bytes + "damage");
  std::vector<v1::MetricBatch> sent;
  std::vector<std::string> notes;
  MetricForwarder forwarder(
      paths, {[] { return true; }, [&](v1::MetricBatch one) { sent.push_back(std::move(one)); },
              [](const AttemptKey&) {}, [&](const std::string& line) { notes.push_back(line); }});
  forwarder.Add({7, 0}, 0, 1);
  forwarder.Pump(0);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].job(), 7u);
  EXPECT_EQ(sent[0].rank(), 0u);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("6 bytes cannot be read job=7"), std::string::npos) << notes[0];
}

TEST_F(HostileFilesTest, AHoleInTheMetricsIsNotRecordsWithoutEnd) {
  Append("rank-0.batches", "");
  ASSERT_EQ(truncate(Path("rank-0.batches").c_str(), 200 << 20), 0);
  auto spool = MetricSpool::Open(Path("rank-0.batches"));
  ASSERT_TRUE(spool.ok());
  EXPECT_FALSE(spool->HasNext());
  EXPECT_EQ(spool->TakeDamage(), 200u << 20);
}

TEST_F(HostileFilesTest, AFullDiskLosesNoMetricAndNeedsNoRestart) {
  fs::create_directories(Path("disk"));
  if (mount("tmpfs", Path("disk").c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "this needs root, to mount a tmpfs";
  }
  auto spool = MetricSpool::Open(Path("disk/rank-0.batches"));
  uint64_t kept = 0;
  const auto append = [&] {
    v1::MetricBatch batch;
    batch.set_source("socket");
    batch.set_seq(kept + 1);
    batch.add_points()->set_name(std::string(1'000, 'n'));
    const absl::Status status = spool->Append(batch);
    kept += status.ok() ? 1 : 0;
    return status;
  };
  while (append().ok()) {
  }
  EXPECT_EQ(append().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(spool->LastSeq("socket"), kept);  // what was refused may be sent again
  uint64_t sent = 0;
  while (const auto batch = *spool->Next()) EXPECT_EQ(batch->seq(), ++sent);
  EXPECT_EQ(sent, kept);
  spool->OnAck("socket", sent);
  (void)append();  // finds the disk full and frees what is delivered
  EXPECT_TRUE(append().ok());
  EXPECT_EQ(MetricSpool::Open(Path("disk/rank-0.batches"))->LastSeq("socket"), kept);
  umount2(Path("disk").c_str(), MNT_DETACH);
}

std::string Frame(uint64_t size) {
  std::string header(reinterpret_cast<const char*>(&size), sizeof size);
  const uint32_t crc = common::MaskedCrc32c(header);
  return header.append(reinterpret_cast<const char*>(&crc), sizeof crc);
}

TEST_F(HostileFilesTest, ALookReadsNoRecordThatIsTooLargeToBeAScalarAndGoesOnBehindIt) {
  // A complete record of 300 MiB (a hole), then tensorboard's version event, then a header that
  // announces 70 MiB.
  const std::string name = "tb/events.out.tfevents.1.h.9.0";
  const std::string event("\x09\x00\x00\x20\x40\xfc\x54\xd9\x41", 9);
  const uint32_t crc = common::MaskedCrc32c(event);
  Append(name, Frame(300 << 20));
  ASSERT_EQ(truncate(Path(name).c_str(), (300 << 20) + 16), 0);
  Append(name, Frame(event.size()) + event +
                   std::string(reinterpret_cast<const char*>(&crc), sizeof crc) + Frame(70 << 20));
  AttemptScanner scanner({{{7, 0}, {{Path("tb"), "", false}}, Path("ledger")}, Path("none"), {}});
  const Findings found = scanner.Look({});
  EXPECT_FALSE(found.more);
  EXPECT_TRUE(found.notes.empty());
}

TEST_F(HostileFilesTest, ALookTakesABoundedNumberOfStepsAndEachOnce) {
  for (int step = 0; step < 100; ++step) Append("ck/step-" + std::to_string(step) + "/model", "x");
  AttemptScanner scanner({{{7, 0}, {}, Path("ledger")}, Path("ck"), {}});
  size_t found = 0, looks = 0;
  for (bool more = true; more; ++looks) {
    const Findings findings = scanner.Look({});
    found += findings.steps.size();
    more = findings.more;
  }
  EXPECT_EQ(found, 100u);
  EXPECT_EQ(looks, 2u);
  EXPECT_TRUE(scanner.Look({}).steps.empty());
}

TEST(DescriptorBudgetTest, TheSharesFitUnderEveryLimit) {
  for (const size_t limit : {64, 256, 1024, 65536}) {
    const DescriptorBudget budget = BudgetFor(limit);
    EXPECT_LE(2 * budget.streams + budget.metric_files + budget.connections, limit * 3 / 4)
        << limit;
  }
}

}  // namespace
}  // namespace muster::worker
