// What the worker reads from files that others write: event files, checkpoint directories, spools,
// metric batches, trainer lines.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "common/kernel/shim_protocol.h"
#include "common/tensorboard/event_file.h"
#include "worker/attempts/rank_report.h"
#include "worker/base/json_lines.h"
#include "worker/base/paths.h"
#include "worker/checkpoints/checkpoint_directory.h"
#include "worker/events/event_tailer.h"
#include "worker/output/log_forwarder.h"
#include "worker/output/metric_spool.h"
#include "worker/output/spool_reader.h"

namespace muster::worker {
namespace {

namespace fs = std::filesystem;

class FilesTest : public ::testing::Test {
 protected:
  FilesTest() {
    char name[] = "/tmp/mf-XXXXXX";
    directory_ = mkdtemp(name);
  }
  ~FilesTest() override { fs::remove_all(directory_); }
  void Write(const std::string& name, const std::string& bytes) {
    fs::create_directories(fs::path(directory_ + "/" + name).parent_path());
    std::ofstream(directory_ + "/" + name, std::ios::binary | std::ios::app) << bytes;
  }
  // As a shim does: bytes first, then their index record.
  void Spool(const std::string& name, const std::string& bytes, uint64_t offset,
             uint64_t dropped = 0) {
    const common::SpoolRecord record{offset, bytes.size(), 1'000 + static_cast<int64_t>(offset),
                                     dropped};
    std::string path = directory_ + "/" + name;
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT, 0600);
    ASSERT_EQ(pwrite(fd, bytes.data(), bytes.size(), offset), static_cast<ssize_t>(bytes.size()));
    close(fd);
    Write(name + ".idx", std::string(reinterpret_cast<const char*>(&record), sizeof record));
  }
  std::string directory_;
  uint64_t said_ = 0;
};

// Written by tensorboard 2.21's RecordWriter: a version event, two simple values, one scalar
// tensor.
std::string GoldenEvents() {
  const std::string hex =
      "1800000000000000a37f4b220900002040fc54d9411a0d627261696e2e4576656e743a322b353110"
      "2500000000000000eabc36f30900005040fc54d94110782a180a0b0a046c6f7373150000003f0a09"
      "0a026c72150000003ee1b7b47b200000000000000029eda9500900008040fc54d94110792a130a11"
      "0a03616363420a080112002a0400002040b9194efd";
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

TEST_F(FilesTest, EventFileOfTensorboardGivesItsScalars) {
  std::string rest = GoldenEvents();
  std::vector<common::EventRecord> events;
  while (!rest.empty()) {
    const auto record = common::ReadEventRecord(rest);
    ASSERT_TRUE(record.ok() && *record);
    events.push_back((*record)->event);
    rest.erase(0, (*record)->bytes);
  }
  ASSERT_EQ(events.size(), 3u);
  EXPECT_TRUE(events[0].scalars.empty());
  EXPECT_EQ(events[1].step, 120);
  ASSERT_EQ(events[1].scalars.size(), 2u);
  EXPECT_EQ(events[1].scalars[0].tag, "loss");
  EXPECT_EQ(events[1].scalars[0].value, 0.5);
  ASSERT_EQ(events[2].scalars.size(), 1u);
  EXPECT_EQ(events[2].scalars[0].value, 2.5);
}

TEST_F(FilesTest, CutEventRecordWaitsAndABrokenOneIsAnError) {
  const std::string bytes = GoldenEvents();
  for (size_t size = 0; size < 40; ++size) {
    const auto record = common::ReadEventRecord(bytes.substr(0, size));
    EXPECT_TRUE(record.ok() && !*record) << size;
  }
  std::string broken = bytes;
  broken[14] ^= 1;
  EXPECT_FALSE(common::ReadEventRecord(broken).ok());
}

TEST_F(FilesTest, TailerReadsEachRecordOnceWhateverTheCut) {
  const std::string bytes = GoldenEvents();
  std::vector<v1::MetricBatch> batches;
  EventTailer::Callbacks callbacks;
  callbacks.known = [](const std::string&) { return std::pair<uint64_t, int64_t>(0, -1); };
  callbacks.batch = [&](uint32_t, v1::MetricBatch batch) {
    batches.push_back(std::move(batch));
    return true;
  };
  callbacks.note = [](const std::string&) {};
  EventTailer tailer({{7, 0}, {{directory_ + "/runs", "runs/", false}}, directory_ + "/ledger", 3},
                     std::move(callbacks));
  for (size_t at = 0; at < bytes.size(); at += 17) {
    Write("runs/a/events.out.tfevents.1.host.99.0", bytes.substr(at, 17));
    tailer.Scan();
  }
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[0].source(), "runs/a/events.out.tfevents.1.host.99.0");
  EXPECT_EQ(batches[1].seq(), bytes.size());
  EXPECT_EQ(batches[1].points(0).step(), 121);
}

TEST_F(FilesTest, OnlyFinishedStepDirectoriesAreFound) {
  Write("step-3/model", "x");
  Write("step-4.tmp/model", "x");
  Write("step-05/model", "x");
  Write("step-6/part-00001-of-00002.json", "{}");
  Write("step-7/part-00000-of-00002.json", "{}");
  Write("step-7/part-00001-of-00002.json", "{}");
  Write("step-8", "a file");
  const auto steps = FindSteps(directory_);
  ASSERT_TRUE(steps.ok());
  ASSERT_EQ(steps->size(), 4u);
  EXPECT_EQ((*steps)[0].parts, 0u);
  EXPECT_EQ((*steps)[1].part, 1u);
  EXPECT_EQ((*steps)[1].parts, 2u);
  EXPECT_EQ((*steps)[2].problem, "it contains 2 part files; fix: write one per node");
  EXPECT_FALSE((*steps)[3].problem.empty());
}

TEST_F(FilesTest, PathsThatLeadOutOrHideAreRefused) {
  for (const char* bad : {"", "/etc/passwd", "..", "a/../b", "a//b", "a/", "./a", "new\nline"}) {
    EXPECT_FALSE(CheckRelativePath(bad).ok()) << bad;
  }
  EXPECT_TRUE(CheckRelativePath("sub/shard-00000-of-00002.safetensors").ok());
  Write("step-1/a", "x");
  fs::create_symlink("/etc", directory_ + "/step-1/out");
  EXPECT_FALSE(ListStepFiles(directory_ + "/step-1").ok());
}

TEST_F(FilesTest, SpoolIsReadWithItsGapsAndTimes) {
  Spool("rank-0.stdout", "hello ", 0);
  Spool("rank-0.stdout", "world", 6);
  Spool("rank-0.stdout", "later", 100, 89);
  SpoolReader reader(directory_ + "/rank-0.stdout");
  EXPECT_EQ(reader.Available().value(), 105u);
  auto piece = reader.Next(8);
  ASSERT_TRUE(piece.ok());
  EXPECT_EQ(piece->data, "hello wo");
  piece = reader.Next(1000);
  EXPECT_EQ(piece->data, "rld");
  EXPECT_EQ(piece->marks[0].second, 1'006);
  piece = reader.Next(1000);
  EXPECT_EQ(piece->dropped, 89u);
  EXPECT_EQ(piece->offset, 100u);
  EXPECT_EQ(piece->data, "later");
  EXPECT_TRUE(reader.Next(1000)->empty());
}

TEST_F(FilesTest, TheLinesOfTheLastSecondsBeforeAnEndAreCounted) {
  const Paths paths(directory_, directory_);
  const AttemptKey key{7, 0};
  fs::create_directories(paths.SpoolDir(key));
  EXPECT_FALSE(ReadLastLines(paths, key, 0, 0).fresh);  // unknown
  const auto say = [&](const std::string& text, int64_t at_ms) {
    const common::SpoolRecord record{said_, text.size(), at_ms * 1'000, 0};
    Write("attempts/7-0/spool/rank-0.stderr", text);
    Write("attempts/7-0/spool/rank-0.stderr.idx",
          std::string(reinterpret_cast<const char*>(&record), sizeof record));
    said_ += text.size();
  };
  say("long ago\nbegun long ago, ", 1'000);
  say("ended just now\n\n", 95'000);
  say("last\n", 100'000);
  LastLines lines = ReadLastLines(paths, key, 0, 100'001);
  EXPECT_EQ(lines.text, "long ago\nbegun long ago, ended just now\n\nlast\n");
  EXPECT_EQ(lines.fresh, 1u);
  EXPECT_EQ(ReadLastLines(paths, key, 0, 99'999).fresh, 2u);
  EXPECT_EQ(ReadLastLines(paths, key, 0, 6'000).fresh, 3u);
  EXPECT_EQ(ReadLastLines(paths, key, 0, 900'000).fresh, 0u);
  say(std::string(10'000, 'x') + "\nend\n", 900'000);
  EXPECT_EQ(ReadLastLines(paths, key, 0, 900'000).fresh, 1u);  // of the reported lines
}

TEST_F(FilesTest, ForwarderSendsAgainFromTheAcknowledgedOffsetAndEndsOnce) {
  const Paths paths(directory_, directory_);
  const AttemptKey key{7, 0};
  fs::create_directories(paths.SpoolDir(key));
  std::vector<v1::LogChunk> sent;
  int drained = 0;
  LogForwarder forwarder(paths, {"node-a", 1},
                         {[] { return true; }, [](const AttemptKey&) { return true; },
                          [&](v1::LogChunk chunk) { sent.push_back(chunk); },
                          [](const AttemptKey&, uint32_t, common::Stream, uint64_t, uint64_t) {},
                          [&](const AttemptKey&) { ++drained; }, [](const std::string&) {}});
  Spool("attempts/7-0/spool/rank-0.stdout", "abc", 0);
  forwarder.Add(key, 0, 1);
  forwarder.Pump(0);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].data(), "abc");
  forwarder.Restart();  // nothing was acknowledged
  forwarder.Pump(0);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[1].offset(), 0u);
  forwarder.Ended(key);
  v1::LogAck ack;
  ack.set_job(7);
  ack.set_stream(v1::LOG_STREAM_STDOUT);
  ack.set_durable_offset(3);
  forwarder.OnAck(ack);
  forwarder.Pump(0);
  ASSERT_EQ(sent.size(), 4u);  // both ends
  for (size_t i : {2u, 3u}) {
    EXPECT_TRUE(sent[i].end());
    ack.set_stream(sent[i].stream());
    ack.set_durable_offset(sent[i].offset());  // the bytes again, not the end
    forwarder.OnAck(ack);
    EXPECT_EQ(drained, 0);
    ack.set_durable_offset(sent[i].offset() + 1);
    forwarder.OnAck(ack);
  }
  EXPECT_EQ(drained, 1);
}

TEST_F(FilesTest, MetricBatchesSurviveAReopeningAndAreSentUntilAcknowledged) {
  const std::string path = directory_ + "/rank-0.batches";
  {
    auto spool = MetricSpool::Open(path);
    for (uint64_t seq : {1, 2, 3}) {
      v1::MetricBatch batch;
      batch.set_source("socket");
      batch.set_seq(seq);
      ASSERT_TRUE(spool->Append(batch).ok());
    }
    ASSERT_EQ((*spool->Next())->seq(), 1u);
    spool->OnAck("socket", 1);
    spool->Rewind();
    EXPECT_EQ((*spool->Next())->seq(), 2u);
  }
  Write("rank-0.batches", std::string("\x10\0\0\0cut", 7));
  auto again = MetricSpool::Open(path);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->LastSeq("socket"), 3u);
  while (again->HasNext()) ASSERT_TRUE(again->Next().ok());
  again->OnAck("socket", 3);
  EXPECT_TRUE(again->Drained());
  EXPECT_EQ(MetricSpool::Open(path)->LastSeq("socket"), 3u);
}

TEST(JsonLinesTest, WrongLinesSayWhatIsWrong) {
  EXPECT_EQ(ParseTrainerLine("garbage").status().message(), "this line is not JSON");
  EXPECT_EQ(ParseTrainerLine("[1]").status().message(), "a line must be a JSON object");
  EXPECT_FALSE(ParseTrainerLine(R"({"type":"metrics","seq":-1,"points":[]})").ok());
  EXPECT_FALSE(
      ParseTrainerLine(R"({"type":"hello","version":1,"job":1,"attempt":0,"rank":1e9})").ok());
  EXPECT_EQ(ParseTrainerLine(R"({"type":"from the future"})")->kind, TrainerLine::Kind::kUnknown);
}

TEST(JsonLinesTest, ADiagnosisIsAnObjectOfBoundedSize) {
  const auto line =
      ParseTrainerLine(R"({"type":"diagnosis","number":7,"record":{"rank":1,"a":[1,2]}})");
  ASSERT_TRUE(line.ok());
  EXPECT_EQ(line->kind, TrainerLine::Kind::kDiagnosis);
  EXPECT_EQ(line->number, 7u);
  EXPECT_EQ(line->record, R"({"a":[1,2],"rank":1})");
  EXPECT_FALSE(ParseTrainerLine(R"({"type":"diagnosis","number":7,"record":"x"})").ok());
  EXPECT_FALSE(ParseTrainerLine(R"({"type":"diagnosis","record":{}})").ok());
  EXPECT_FALSE(ParseTrainerLine(R"({"type":"diagnosis","number":7,"record":{"a":")" +
                                std::string(kDiagnosisBytesMax, 'a') + "\"}}")
                   .ok());
  EXPECT_EQ(DiagnoseLine(7, "asked by me"),
            "{\"number\":7,\"reason\":\"asked by me\",\"type\":\"diagnose\"}\n");
}

TEST(JsonLinesTest, ALineOfHalfAMillionBracketsIsRefusedBeforeItIsParsed) {
  const std::string deep(500'000, '[');
  const auto line = ParseTrainerLine(R"({"type":"diagnosis","number":1,"record":{"a":)" + deep);
  EXPECT_EQ(line.status().message(),
            "this line is nested deeper than 32 levels; fix: send a flatter object");
  const std::string closed = deep + std::string(deep.size(), ']');
  EXPECT_FALSE(
      ParseTrainerLine(R"({"type":"diagnosis","number":1,"record":{"a":)" + closed + "}}").ok());
  EXPECT_EQ(ErrorFileMessage(R"({"message":"x","a":)" + closed + "}"), "");
  const std::string brackets(100, '[');  // in a string they are text
  EXPECT_EQ(ErrorFileMessage(R"({"message":"\")" + brackets + "\"}"), "\"" + brackets);
}

TEST(JsonLinesTest, NotFiniteValuesAreStrings) {
  const auto line =
      ParseTrainerLine(R"({"type":"metrics","seq":1,"points":[{"name":"a","step":1,"value":"NaN"},)"
                       R"({"name":"b","step":1,"value":"-Infinity"}]})");
  ASSERT_TRUE(line.ok());
  EXPECT_TRUE(std::isnan(line->batch.points(0).value()));
  EXPECT_TRUE(std::isinf(line->batch.points(1).value()));
}

TEST(JsonLinesTest, BothShapesOfErrorFilesAreRead) {
  EXPECT_EQ(ErrorFileMessage(R"({"message":"plain","timestamp":1})"), "plain");
  EXPECT_EQ(ErrorFileMessage(R"({"message":{"message":"ValueError: no","errorCode":1}})"),
            "ValueError: no");
  for (const char* broken : {"", "{", "[]", "{\"message\":7}"})
    EXPECT_EQ(ErrorFileMessage(broken), "");
}

TEST(PathsTest, OnlyCanonicalNamesAreKeysAndSteps) {
  EXPECT_EQ(ParseKey("42-0"), (AttemptKey{42, 0}));
  for (const char* bad : {"", "42", "42-", "042-0", "42-0x", "42--1", "-42-0"}) {
    EXPECT_FALSE(ParseKey(bad)) << bad;
  }
  EXPECT_EQ(ParseStep("step-120"), 120);
  for (const char* bad : {"step-", "step-01", "step--1", "step-1.tmp", "xstep-1"}) {
    EXPECT_FALSE(ParseStep(bad)) << bad;
  }
}

}  // namespace
}  // namespace muster::worker
