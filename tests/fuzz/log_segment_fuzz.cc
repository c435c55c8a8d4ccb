// A stream's segment in the coordinator's data directory after damage: the bytes as they are, and
// as records with sound checksums whose fields are what the input says.
#include <algorithm>
#include <cstring>

#include "common/base/limits.h"
#include "common/files/files.h"
#include "coordinator/local/log_reader.h"
#include "coordinator/local/log_stream_file.h"
#include "fuzz/harness.h"

namespace muster::coordinator {
namespace {

const LogKey kKey{.job = 1, .attempt = 0, .rank = 0, .stream = v1::LOG_STREAM_STDOUT};
constexpr uint64_t kSalt = 7;

std::string Head() {
  const std::string head = EncodeSegmentHead({.id = SegmentIdOf(kKey), .salt = kSalt});
  return head + head;
}

std::string SoundRecords(std::string_view bytes) {
  std::string records = Head();
  testing::Pieces pieces(bytes);
  for (std::string_view piece; pieces.Next(&piece);) {
    RecordHead head;
    uint64_t fields[5] = {};
    std::memcpy(fields, piece.data(), std::min(piece.size(), sizeof fields));
    head = {.offset = fields[0],
            .dropped = fields[1],
            .time_us = static_cast<int64_t>(fields[2]),
            .count = fields[3],
            .length = static_cast<uint32_t>(fields[4]),
            .end = (fields[4] >> 40) % 8 == 1,
            .body_crc = static_cast<uint32_t>(fields[4] >> 32)};
    records += EncodeRecordHead(head, kSalt);
    records += piece.substr(std::min(piece.size(), sizeof fields));
  }
  return records;
}

void ReadFrom(const Paths& paths, uint64_t offset, size_t bytes) {
  const auto cursor = LocalLogReader(paths).Open(kKey, offset);
  for (size_t pieces = 0;; ++pieces) {
    const auto piece = cursor->Peek();
    FUZZ_EXPECT(piece.ok());
    if (!piece->has_value()) return;
    FUZZ_EXPECT(pieces <= bytes / kRecordHeadBytes + 1);
    FUZZ_EXPECT((*piece)->offset + (*piece)->length <= common::kLogStreamBytesMax);
    const absl::StatusOr<std::string> body = cursor->Read(**piece);
    FUZZ_EXPECT(absl::IsDataLoss(body.status()) || body->size() <= (*piece)->length);
    cursor->Advance();
  }
}

// Backwards come the records whose heads are sound: as many as forwards at most.
void ReadBackwards(const Paths& paths, size_t bytes) {
  const LocalLogReader reader(paths);
  FUZZ_EXPECT(reader.OffsetOfLastLines(kKey, 3).ok());
  FUZZ_EXPECT(reader.OffsetSince(kKey, 5).ok());
  const auto backwards = reader.OpenAtEnd(kKey);
  for (size_t pieces = 0;; ++pieces) {
    const auto piece = backwards->Previous();
    FUZZ_EXPECT(piece.ok());
    if (!piece->has_value()) return;
    FUZZ_EXPECT(pieces <= bytes / kRecordHeadBytes);
    FUZZ_EXPECT((*piece)->end_offset <= common::kLogStreamBytesMax);
  }
}

void Use(const testing::Directory& directory, const Paths& paths, std::string_view bytes) {
  const std::string path = SegmentFiles(paths.LogStream(kKey)).At(0);
  directory.Write(path.substr(directory.Path("").size()), bytes);
  for (const uint64_t offset : {uint64_t{0}, uint64_t{7}}) ReadFrom(paths, offset, bytes.size());
  ReadBackwards(paths, bytes.size());

  absl::StatusOr<LogStreamFile> file = LogStreamFile::Open(paths, kKey);
  FUZZ_EXPECT(file.ok());
  // Recovered: what is left can be appended to, and what was lost can be brought.
  v1::LogChunk chunk;
  chunk.set_kept_from(0);
  chunk.set_offset(file->Durable());
  chunk.set_data("more");
  FUZZ_EXPECT(file->Append(chunk).ok() || file->Written() + 4 > common::kLogStreamBytesMax);
  chunk.set_offset(file->Written());
  chunk.set_kept_from(file->Written());
  const uint64_t before = file->Written();
  const absl::Status appended = file->Append(chunk);
  FUZZ_EXPECT(!appended.ok() || file->File().HasEnd() || file->Written() == before + 4);
  common::RemoveTree(SegmentFiles(paths.LogStream(kKey)).DirectoryOfOthers()).IgnoreError();
}

}  // namespace
}  // namespace muster::coordinator

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  using namespace muster::coordinator;
  static const testing::Directory directory;
  static const Paths paths(directory.Path("data"));
  static const bool made = LogStreamFile::Open(paths, kKey).ok();
  FUZZ_EXPECT(made);
  const std::string_view bytes = testing::Text(data, size);
  Use(directory, paths, bytes);
  Use(directory, paths, Head() + std::string(bytes));
  Use(directory, paths, SoundRecords(bytes));
  return 0;
}
