// Data directories of before: what they hold is there after the first start, and only then are the
// old files gone.
#include <gtest/gtest.h>

#include <cstring>

#include "common/crc32c.h"
#include "common/files.h"
#include "coordinator/local/log_store.h"
#include "coordinator/local/metric_store.h"
#include "coordinator/local/older_format.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/stores/log_sender.h"
#include "tests/stores/metric_sender.h"

namespace muster::coordinator {
namespace {

// One 40-byte record of the old index.
std::string OldPiece(uint64_t offset, uint64_t dropped, const std::string& body, bool end) {
  std::string record(40, '\0');
  const int64_t time_us = 1'000 + static_cast<int64_t>(offset);
  const uint32_t tail[3] = {static_cast<uint32_t>(body.size()), common::Crc32c(body),
                            end ? 1u : 0u};
  std::memcpy(&record[0], &offset, 8);
  std::memcpy(&record[8], &dropped, 8);
  std::memcpy(&record[16], &time_us, 8);
  std::memcpy(&record[24], tail, sizeof tail);
  const uint32_t crc = common::Crc32c(std::string_view(record).substr(0, 36));
  std::memcpy(&record[36], &crc, 4);
  return record;
}

std::string OldBatch(const v1::MetricBatch& batch) {
  const std::string body = batch.SerializeAsString();
  const uint32_t header[2] = {static_cast<uint32_t>(body.size()), common::Crc32c(body)};
  return std::string(reinterpret_cast<const char*>(header), sizeof header) + body;
}

class OlderFormatTest : public testing::Test {
 protected:
  void SetUp() override {
    Put("logs/1/0/rank-0.stdout", std::string("one\ntwo\n\0\0\0\0\0end\n", 17));
    Put("logs/1/0/rank-0.stdout.idx", OldPiece(0, 0, "one\n", false) +
                                          OldPiece(4, 0, "two\n", false) +
                                          OldPiece(13, 5, "end\n", true));
    Put("logs/1/0/rank-1.stdout", "live\n");
    Put("logs/1/0/rank-1.stdout.idx", OldPiece(0, 0, "live\n", false) + "torn");
    Put("metrics/1/0.mseg", OldBatch(Batch(1, 10, 0.5)) + OldBatch(Batch(2, 11, 0.25)) + "torn");
  }
  void Put(const std::string& name, const std::string& bytes) {
    const std::string path = dir_.path() + "/" + name;
    ASSERT_TRUE(common::MakeDirectories(path.substr(0, path.rfind('/'))).ok());
    ASSERT_TRUE(common::WriteFileDurably(path, bytes).ok());
  }
  std::string Log(uint32_t rank) const {
    v1::StreamLogsRequest request = Everything();
    request.add_ranks(rank);
    return ReadAll(LocalLogReader(paths_), request);
  }

  const TempDir dir_;
  const Paths paths_{dir_.path()};
};

TEST_F(OlderFormatTest, EverythingIsThereAndCanBeContinued) {
  ASSERT_TRUE(ConvertOlderFormat(paths_).ok());
  EXPECT_EQ(Log(0), "one\ntwo\n<5 lost>end\n");
  EXPECT_EQ(Log(1), "live\n");
  EXPECT_FALSE(common::Exists(dir_.path() + "/logs/1/0/rank-0.stdout.idx"));
  EXPECT_FALSE(common::Exists(dir_.path() + "/metrics/1/0.mseg"));
  LocalLogStore logs(paths_);
  auto sender = std::make_shared<LogSender>();
  logs.Append(Chunk(1, 5, "on\n", 9'000, true), sender);
  EXPECT_EQ(sender->WaitFor(9).durable_offset(), 9u);
  EXPECT_EQ(Log(1), "live\non\n");
  LocalMetricStore metrics(paths_);
  auto uploader = std::make_shared<MetricSender>();
  metrics.Append(Batch(2, 11, 0.25), uploader);
  metrics.Append(Batch(3, 12, 0.125), uploader);
  uploader->WaitForCount(2);
  EXPECT_EQ(ReadAll(metrics).size(), 3u);
}

TEST_F(OlderFormatTest, AConversionThatDidNotEndIsDoneAgain) {
  // A crash left the first segments of a stream beside its old files.
  Put("logs/1/0/rank-0.stdout.seg", "half");
  ASSERT_TRUE(ConvertOlderFormat(paths_).ok());
  EXPECT_EQ(Log(0), "one\ntwo\n<5 lost>end\n");
  // Nothing is looked for again.
  Put("logs/1/0/rank-2.stdout.idx", OldPiece(0, 0, "late\n", true));
  ASSERT_TRUE(ConvertOlderFormat(paths_).ok());
  EXPECT_TRUE(common::Exists(dir_.path() + "/logs/1/0/rank-2.stdout.idx"));
}

TEST_F(OlderFormatTest, DamageOfBeforeIsAMarkedGap) {
  Put("logs/1/0/rank-0.stdout", std::string("one\nXwo\n\0\0\0\0\0end\n", 17));
  ASSERT_TRUE(ConvertOlderFormat(paths_).ok());
  EXPECT_EQ(Log(0), "one\n<5 lost><4 damaged>end\n");
}

}  // namespace
}  // namespace muster::coordinator
