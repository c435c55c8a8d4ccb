// A stream's log in the coordinator's data directory after damage. Input: a piece of index records,
// whose checksums are made good when the first byte is odd; the rest is the data.
#include "common/crc32c.h"
#include "common/limits.h"
#include "coordinator/local/log_reader.h"
#include "coordinator/local/log_stream_file.h"
#include "fuzz/harness.h"

namespace muster::coordinator {
namespace {

std::string Summed(std::string_view index) {
  std::string summed(index);
  constexpr size_t kBody = kLogIndexRecordBytes - sizeof(uint32_t);
  for (size_t at = 0; at + kLogIndexRecordBytes <= summed.size(); at += kLogIndexRecordBytes) {
    const uint32_t sum = common::Crc32c(std::string_view(summed).substr(at, kBody));
    summed.replace(at + kBody, sizeof sum, reinterpret_cast<const char*>(&sum), sizeof sum);
  }
  return summed;
}

void ReadFrom(const Paths& paths, const LogKey& key, uint64_t offset, size_t records) {
  const auto cursor = LocalLogReader(paths).Open(key, offset);
  for (size_t pieces = 0;; ++pieces) {
    const auto piece = cursor->Peek();
    FUZZ_EXPECT(piece.ok());
    if (!piece->has_value()) return;
    FUZZ_EXPECT(pieces <= records);
    FUZZ_EXPECT((*piece)->length <= common::kLogChunkBytesMax);
    const absl::StatusOr<std::string> bytes = cursor->Read(**piece);
    FUZZ_EXPECT(bytes.ok() && bytes->size() <= (*piece)->length);
    cursor->Advance();
  }
}

}  // namespace
}  // namespace muster::coordinator

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  using namespace muster::coordinator;
  static const testing::Directory directory;
  static const Paths paths(directory.Path("data"));
  const LogKey key{.job = 1, .attempt = 0, .rank = 0, .stream = v1::LOG_STREAM_STDOUT};
  static const bool made = LogStreamFile::Open(paths, key).ok();
  FUZZ_EXPECT(made);

  testing::Pieces input(testing::Text(data, size));
  std::string_view index;
  if (!input.Next(&index)) return 0;
  const size_t root = directory.Path("").size();
  const auto write = [&](const std::string& path, std::string_view bytes) {
    directory.Write(path.substr(root), bytes);
  };
  write(paths.LogIndex(1, 0, 0, key.stream), data[0] % 2 == 1 ? Summed(index) : std::string(index));
  write(paths.LogFile(1, 0, 0, key.stream), input.Rest());

  const size_t records = index.size() / kLogIndexRecordBytes;
  for (const uint64_t offset : {uint64_t{0}, uint64_t{7}}) ReadFrom(paths, key, offset, records);
  FUZZ_EXPECT(LocalLogReader(paths).OffsetOfLastLines(key, 3).ok());

  absl::StatusOr<LogStreamFile> file = LogStreamFile::Open(paths, key);
  FUZZ_EXPECT(file.ok());
  // Recovered: what is left can be appended to.
  v1::LogChunk chunk;
  chunk.set_offset(file->Written());
  chunk.set_data("more");
  const uint64_t before = file->Written();
  const absl::Status appended = file->Append(chunk);
  FUZZ_EXPECT(!appended.ok() || file->Ended() || file->Written() == before + 4);
  return 0;
}
