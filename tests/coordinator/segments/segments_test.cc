// Segments under damage: every sound record is served, whatever happened to the others.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/files/files.h"
#include "coordinator/segments/cursor.h"
#include "coordinator/segments/last_lines.h"
#include "coordinator/segments/since.h"
#include "coordinator/segments/trim.h"
#include "coordinator/segments/writer.h"
#include "tests/coordinator/temp_dir.h"

namespace muster::coordinator {
namespace {

const SegmentId kId{.kind = SegmentKind::kLog, .job = 7, .attempt = 1, .rank = 3, .stream = 1};

class SegmentsTest : public testing::Test {
 protected:
  SegmentWriter Open() {
    absl::StatusOr<SegmentWriter> writer = SegmentWriter::Open(files_, kId);
    EXPECT_TRUE(writer.ok()) << writer.status();
    return *std::move(writer);
  }
  void Write(const std::vector<std::string>& bodies, bool ends) {
    SegmentWriter writer = Open();
    for (size_t i = 0; i < bodies.size(); ++i) {
      ASSERT_TRUE(writer
                      .Append({{.offset = writer.Written(),
                                .time_us = static_cast<int64_t>(i + 1),
                                .end = ends && i + 1 == bodies.size(),
                                .body = bodies[i]}})
                      .ok());
    }
    ASSERT_TRUE(writer.Sync().ok());
  }
  struct Found {
    std::string text;  // damaged bytes as '?'
    uint64_t damaged = 0;
    bool ended = false;
  };
  Found Read(uint64_t offset = 0,
             SegmentCursor::Appetite appetite = SegmentCursor::Appetite::kFew) {
    return ReadFrom(std::make_shared<const SegmentFiles>(files_), offset, appetite);
  }
  static Found ReadFrom(std::shared_ptr<const StreamSegments> segments, uint64_t offset,
                        SegmentCursor::Appetite appetite) {
    SegmentCursor cursor(std::move(segments), offset, appetite);
    Found found;
    while (true) {
      const auto record = cursor.Peek();
      EXPECT_TRUE(record.ok()) << record.status();
      if (!record.ok() || *record == nullptr) return found;
      found.damaged += (*record)->damaged;
      found.text += std::string((*record)->damaged, '?');
      found.ended = (*record)->end;
      const auto body = cursor.Body();
      if (absl::IsDataLoss(body.status())) {
        found.damaged += (*record)->length;
        found.text += std::string((*record)->length, '?');
      } else {
        EXPECT_TRUE(body.ok()) << body.status();
        found.text += *body;
      }
      cursor.Advance();
    }
  }
  std::string Bytes(uint64_t segment = 0) { return *common::ReadFile(files_.At(segment)); }
  void Put(const std::string& bytes, uint64_t segment = 0) {
    const int fd = open(files_.At(segment).c_str(), O_WRONLY | O_TRUNC);
    ASSERT_EQ(write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    close(fd);
  }

  const TempDir dir_;
  const SegmentFiles files_{dir_.path() + "/rank-3.stdout"};
};

// The segments of a stream as objects, each written once.
class StreamInMemory final : public StreamSegments {
 public:
  absl::StatusOr<std::vector<uint64_t>> List() const override {
    std::vector<uint64_t> offsets;
    for (const auto& [offset, bytes] : segments) offsets.push_back(offset);
    return offsets;
  }
  std::unique_ptr<SegmentBytes> Open(uint64_t first_offset) const override {
    class Bytes final : public SegmentBytes {
     public:
      explicit Bytes(const std::string* all) : all_(all) {}
      absl::StatusOr<Piece> Read(uint64_t position, size_t size) override {
        if (all_ == nullptr) return Piece();
        return Piece{position < all_->size() ? all_->substr(position, size) : "", all_->size(), 1};
      }
      std::string Name() const override { return "an object"; }

     private:
      const std::string* const all_;
    };
    const auto found = segments.find(first_offset);
    return std::make_unique<Bytes>(found == segments.end() ? nullptr : &found->second);
  }

  std::map<uint64_t, std::string> segments;
};

TEST_F(SegmentsTest, SegmentsThatAreNoFilesAreReadAsFilesAre) {
  std::vector<std::string> bodies;
  for (int i = 0; i < 100; ++i)
    bodies.push_back(std::to_string(i) + std::string(200'000, 'x') + "\n");
  Write(bodies, true);
  const std::vector<uint64_t> offsets = *files_.List();
  ASSERT_GT(offsets.size(), 2u);
  auto memory = std::make_shared<StreamInMemory>();
  for (const uint64_t offset : offsets) memory->segments[offset] = Bytes(offset);
  for (const auto appetite : {SegmentCursor::Appetite::kFew, SegmentCursor::Appetite::kAll}) {
    for (const uint64_t from : {uint64_t{0}, uint64_t{9'000'001}}) {
      const Found found = ReadFrom(memory, from, appetite);
      EXPECT_TRUE(found.text == Read(from, appetite).text);
      EXPECT_TRUE(found.ended);
    }
  }
  EXPECT_EQ(*OffsetOfLastLines(*memory, 3), *OffsetOfLastLines(files_, 3));
  EXPECT_EQ(*OffsetSince(*memory, 70), *OffsetSince(files_, 70));
  memory->segments.erase(offsets[1]);
  EXPECT_GT(ReadFrom(memory, 0, SegmentCursor::Appetite::kAll).damaged, 0u) << "a lost object";
}

TEST_F(SegmentsTest, WhatWasWrittenIsReadFromAnyOffset) {
  Write({"one\n", "two\n", "three\n"}, true);
  const std::string all = "one\ntwo\nthree\n";
  EXPECT_EQ(Read().text, all);
  EXPECT_TRUE(Read().ended);
  EXPECT_EQ(Read(0, SegmentCursor::Appetite::kAll).text, all);
  // Whole records: who wants less cuts it.
  EXPECT_EQ(Read(5).text, "two\nthree\n");
  EXPECT_TRUE(Read(all.size()).ended);
}

// Four bytes once left 63 of 19,685, and later output was lost as well.
TEST_F(SegmentsTest, AnyFlippedByteCostsAtMostTheRecordThatItHits) {
  const std::vector<std::string> bodies = {"first line\n", "second\n", "the third line\n", "4\n"};
  for (const bool ends : {false, true}) {
    Write(bodies, ends);
    const std::string sound = Bytes();
    std::string all;
    for (const std::string& body : bodies) all += body;
    for (size_t at = 0; at < sound.size(); ++at) {
      std::string damaged = sound;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x5a);
      Put(damaged);
      const Found found = Read();
      size_t wrong = 0;
      for (size_t i = 0; i < found.text.size(); ++i) wrong += found.text[i] != all[i];
      EXPECT_EQ(wrong, found.damaged) << at << ": what is served is what was written";
      EXPECT_LE(wrong + all.size() - found.text.size(), 15u) << at << ": the longest record";
      if (ends) {
        EXPECT_EQ(found.text.size(), all.size()) << at;
        EXPECT_TRUE(found.ended) << at;
      }
    }
    unlink(files_.At(0).c_str());
  }
}

TEST_F(SegmentsTest, OpeningForWritingKeepsWhatIsSoundAndKnowsWhatIsLost) {
  Write({"first\n", "second\n", "third\n"}, false);
  std::string bytes = Bytes();
  bytes[bytes.find("second")] = 'X';
  Put(bytes);
  SegmentWriter writer = Open();
  EXPECT_EQ(writer.Written(), 19u);
  ASSERT_EQ(writer.Lost().size(), 1u);
  EXPECT_EQ(writer.Lost()[0].from, 6u);
  EXPECT_EQ(writer.Lost()[0].until, 13u);
  ASSERT_TRUE(writer.Append({{.offset = 19, .time_us = 4, .body = "fourth\n"}}).ok());
  ASSERT_TRUE(writer.Sync().ok());
  EXPECT_EQ(writer.Durable(), 6u) << "what is lost may still come again";
  EXPECT_EQ(Read().text, "first\n???????third\nfourth\n");
  ASSERT_TRUE(writer.Restore({{.offset = 6, .time_us = 2, .body = "second\n"}}, 13).ok());
  EXPECT_EQ(writer.Durable(), 26u);
  EXPECT_EQ(Read().text, "first\nsecond\nthird\nfourth\n");
  ASSERT_TRUE(writer.Append({{.offset = 26, .time_us = 5, .end = true, .body = "end\n"}}).ok());
  EXPECT_EQ(Read().text, "first\nsecond\nthird\nfourth\nend\n");
  EXPECT_EQ(Open().Lost().size(), 0u);
}

TEST_F(SegmentsTest, AnEndedStreamIsRestoredToo) {
  Write({"first\n", "second\n", "last\n"}, true);
  std::string bytes = Bytes();
  bytes[bytes.find("last")] = 'X';
  Put(bytes);
  SegmentWriter writer = Open();
  EXPECT_TRUE(writer.HasEnd());
  ASSERT_EQ(writer.Lost().size(), 1u);
  EXPECT_EQ(writer.Lost()[0].from, 13u);
  ASSERT_TRUE(writer.Restore({{.offset = 13, .time_us = 3, .body = "last\n"}}, 18).ok());
  EXPECT_EQ(Read().text, "first\nsecond\nlast\n");
  EXPECT_TRUE(Read().ended);
}

TEST_F(SegmentsTest, ATornEndIsCut) {
  Write({"whole\n", "torn\n"}, false);
  const std::string bytes = Bytes();
  for (size_t size = bytes.size() - 1; size > bytes.find("whole") + 6; --size) {
    Put(bytes.substr(0, size));
    EXPECT_EQ(Read().text, "whole\n") << size;
    SegmentWriter writer = Open();
    EXPECT_EQ(writer.Written(), 6u) << size;
    EXPECT_TRUE(writer.Lost().empty()) << size;
    ASSERT_TRUE(writer.Append({{.offset = 6, .time_us = 2, .body = "again\n"}}).ok());
    EXPECT_EQ(Read().text, "whole\nagain\n") << size;
  }
}

TEST_F(SegmentsTest, BytesThatLookLikeARecordAreNone) {
  // What another segment's record looks like is known to everybody.
  const std::string body = "not mine\n";
  const std::string forged =
      EncodeRecordHead({.offset = 100, .length = 9, .body_crc = 0}, 0x1234) + body;
  Write({"first\n", forged, "third\n"}, true);
  std::string bytes = Bytes();
  const size_t record = bytes.find(forged) - kRecordHeadBytes;
  bytes[record + 4] =
      static_cast<char>(bytes[record + 4] ^ 1);  // its length: what follows is searched
  Put(bytes);
  EXPECT_EQ(Read().text, "first\n" + std::string(forged.size(), '?') + "third\n");
}

TEST_F(SegmentsTest, AStreamPassesThroughManySegments) {
  std::string all;
  {
    SegmentWriter writer = Open();
    for (int i = 0; all.size() < 3 * kSegmentBytesMax; ++i) {
      const std::string body(200'000, static_cast<char>('a' + i % 26));
      ASSERT_TRUE(writer.Append({{.offset = all.size(), .time_us = i, .body = body + "\n"}}).ok());
      all += body + "\n";
    }
    ASSERT_TRUE(writer.Append({{.offset = all.size(), .time_us = 1, .end = true}}).ok());
  }
  EXPECT_EQ(files_.List()->size(), 4u);
  EXPECT_TRUE(Read().text == all);
  EXPECT_TRUE(Read(0, SegmentCursor::Appetite::kAll).text == all);
  EXPECT_EQ(Read(all.size() - 10).text.size(), 200'001u);
  for (const uint64_t lines : {1, 2, 50, 100}) {
    EXPECT_EQ(*OffsetOfLastLines(files_, lines), all.size() - lines * 200'001);
  }
  EXPECT_EQ(*OffsetOfLastLines(files_, 1'000), 0u);
  // A segment that is gone is a gap, and a file that lost its head, too.
  const uint64_t second = (*files_.List())[1], third = (*files_.List())[2];
  Put(std::string(5'000, 'x'), second);
  const Found without = Read();
  EXPECT_EQ(without.damaged, third - second);
  EXPECT_EQ(without.text.size(), all.size());
  unlink(files_.At(second).c_str());
  EXPECT_EQ(Read().damaged, third - second);
  EXPECT_TRUE(Read().ended);
}

TEST_F(SegmentsTest, AFollowerReadsOnInAReplacedAndInANextSegment) {
  Write({"first\n", "second\n", "third\n"}, false);
  std::string bytes = Bytes();
  bytes[bytes.find("second")] = 'X';
  Put(bytes);
  SegmentCursor cursor(std::make_shared<const SegmentFiles>(files_), 0,
                       SegmentCursor::Appetite::kFew);
  ASSERT_NE(*cursor.Peek(), nullptr);
  EXPECT_EQ(*cursor.Body(), "first\n");
  cursor.Advance();
  SegmentWriter writer = Open();
  ASSERT_TRUE(writer.Restore({{.offset = 6, .time_us = 2, .body = "second\n"}}, 13).ok());
  std::string rest;
  for (int tries = 0; tries < 10; ++tries) {
    const auto record = cursor.Peek();
    if (*record == nullptr) break;
    const auto body = cursor.Body();
    if (absl::IsUnavailable(body.status())) continue;
    rest += *body;
    cursor.Advance();
  }
  EXPECT_EQ(rest, "second\nthird\n");
  const std::string large(kSegmentBytesMax, 'x');
  // In records as large as they may be.
  for (size_t at = 0; at < large.size(); at += 1 << 20) {
    ASSERT_TRUE(writer
                    .Append({{.offset = writer.Written(),
                              .time_us = 3,
                              .body = std::string_view(large).substr(at, 1 << 20)}})
                    .ok());
  }
  ASSERT_TRUE(writer.Append({{.offset = writer.Written(), .time_us = 4, .body = "next\n"}}).ok());
  uint64_t read = 0;
  std::string last;
  while (*cursor.Peek() != nullptr) {
    last = *cursor.Body();
    read += last.size();
    cursor.Advance();
  }
  EXPECT_EQ(files_.List()->size(), 2u);
  EXPECT_EQ(read, large.size() + 5);
  EXPECT_EQ(last, "next\n");
}

// A quota replaced the growing file that a follower was at the end of, and the new one, which is shorter, got its inode.
TEST_F(SegmentsTest, AShorterFileWithTheInodeOfTheOldOneIsNoticed) {
  const std::string first(2'000, 'a');
  Write({first}, false);
  SegmentCursor cursor(std::make_shared<const SegmentFiles>(files_), 0,
                       SegmentCursor::Appetite::kFew);
  ASSERT_NE(*cursor.Peek(), nullptr);
  cursor.Advance();
  ASSERT_EQ(*cursor.Peek(), nullptr);
  const std::string kept = files_.At(0) + ".kept";
  ASSERT_EQ(link(files_.At(0).c_str(), kept.c_str()), 0);
  ASSERT_TRUE(RemoveUntil(files_, kId, {.end_offset = 2'500, .end_count = 7}).ok());
  const std::string mark = Bytes();
  ASSERT_EQ(rename(kept.c_str(), files_.At(0).c_str()), 0);
  Put(mark);
  Write({"next\n"}, false);
  const auto gap = cursor.Peek();
  ASSERT_NE(*gap, nullptr);
  EXPECT_TRUE((*gap)->removed);
  EXPECT_EQ((*gap)->dropped, 500u);
  cursor.Advance();
  ASSERT_NE(*cursor.Peek(), nullptr);
  EXPECT_EQ(*cursor.Body(), "next\n");
}

TEST_F(SegmentsTest, LastLinesAreThoseThatWereCounted) {
  std::string all;
  {
    SegmentWriter writer = Open();
    for (int i = 0; i < 3'000; ++i) {
      const std::string body =
          std::string(static_cast<size_t>(i % 97), 'x') + (i % 3 == 0 ? "\n" : "");
      ASSERT_TRUE(writer.Append({{.offset = all.size(), .time_us = i, .body = body}}).ok());
      all += body;
    }
  }
  for (const uint64_t lines : {1, 2, 3, 10, 500, 999, 1'000, 1'001}) {
    uint64_t found = 0, expected = 0;
    for (size_t i = all.size(); i > 1; --i) {
      if (all[i - 2] == '\n' && ++found == lines) {
        expected = i - 1;
        break;
      }
    }
    EXPECT_EQ(*OffsetOfLastLines(files_, lines), expected) << lines;
  }
}

TEST_F(SegmentsTest, AFileOfAnotherStreamIsSetAside) {
  Write({"mine\n"}, false);
  SegmentId other = kId;
  other.rank = 4;
  absl::StatusOr<SegmentWriter> writer = SegmentWriter::Open(files_, other);
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_EQ(writer->Written(), 0u);
  EXPECT_TRUE(common::Exists(files_.At(0) + ".damaged"));
}

}  // namespace
}  // namespace muster::coordinator
