#include "coordinator/local/sample_files.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/hash/crc32c.h"
#include "common/hash/sha256.h"
#include "common/text/strings.h"
#include "coordinator/base/file_tree.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr char kSampleMagic[] = "MSP1";
constexpr size_t kSampleMagicBytes = 4;
constexpr size_t kHeadBytes = kSampleMagicBytes + 2 * sizeof(uint32_t);
constexpr const char* kTierNames[] = {"1s", "10s", "1min"};
static_assert(std::size(kTierNames) == kSampleTierCount);
// The number of files over which a tier's time is spread.
constexpr int64_t kFilesOfTier[] = {8, 8, 60};
constexpr size_t kFolderBytesMax = 200;

void AppendNumber(std::string* text, uint32_t number) {
  for (int shift = 0; shift < 32; shift += 8) text->push_back(static_cast<char>(number >> shift));
}

uint32_t NumberAt(std::string_view bytes, size_t at) {
  uint32_t number = 0;
  for (int i = 3; i >= 0; --i) number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
  return number;
}

// The size of the sound record at `at`, parsed into `bucket`; 0 if there is none.
size_t SoundRecordAt(std::string_view bytes, size_t at, v1::SampleBucket* bucket) {
  if (bytes.size() - at < kHeadBytes) return 0;
  const size_t size = NumberAt(bytes, at + kSampleMagicBytes);
  if (size > kSampleRecordBytesMax || bytes.size() - at - kHeadBytes < size) return 0;
  const std::string_view payload = bytes.substr(at + kHeadBytes, size);
  if (common::Crc32c(payload) != NumberAt(bytes, at + kSampleMagicBytes + sizeof(uint32_t)))
    return 0;
  if (!bucket->ParseFromArray(payload.data(), static_cast<int>(size))) return 0;
  return kHeadBytes + size;
}

absl::StatusOr<std::string> ReadWhole(const Paths& paths, const TreeFile& file) {
  ASSIGN_OR_RETURN(const common::UniqueFd fd, OpenBelow(paths.Root(), file.path, O_RDONLY));
  return common::ReadAt(fd.get(), 0, std::min(file.size, kSampleBytesReadMax), file.path);
}

}  // namespace

std::string SampleNodeFolder(std::string_view node) {
  std::string folder;
  for (const char letter : node) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(letter)) || letter == '-') {
      folder.push_back(letter);
    } else {
      folder += absl::StrFormat("_%02x", static_cast<unsigned char>(letter));
    }
  }
  if (folder.size() <= kFolderBytesMax) return folder;
  return StrCat(folder.substr(0, kFolderBytesMax / 2), "_", common::Sha256Hex(node));
}

std::string SampleFile::Path() const {
  return StrCat("samples/", job, "/", attempt, "/", node_folder, "/", kTierNames[tier], "-",
                absl::StrFormat("%015d", begun_ms));
}

std::optional<SampleFile> ParseSamplePath(const std::string& path) {
  const std::vector<std::string> names = absl::StrSplit(path, '/');
  if (names.size() != 5 || names[0] != "samples") return std::nullopt;
  const std::vector<std::string> parts = absl::StrSplit(names[4], '-');
  SampleFile file;
  file.node_folder = names[3];
  if (parts.size() != 2 || !absl::SimpleAtoi(names[1], &file.job) ||
      !absl::SimpleAtoi(names[2], &file.attempt) || !absl::SimpleAtoi(parts[1], &file.begun_ms)) {
    return std::nullopt;
  }
  const auto tier = std::find(std::begin(kTierNames), std::end(kTierNames), parts[0]);
  if (tier == std::end(kTierNames)) return std::nullopt;
  file.tier = static_cast<size_t>(tier - std::begin(kTierNames));
  if (file.Path() != path) return std::nullopt;
  return file;
}

int64_t SampleFileSpanMs(size_t tier) { return kSampleTiers[tier].kept_ms / kFilesOfTier[tier]; }

std::string SampleRecord(const v1::SampleBucket& bucket) {
  const std::string payload = bucket.SerializeAsString();
  std::string record(kSampleMagic);
  record.reserve(kHeadBytes + payload.size());
  AppendNumber(&record, static_cast<uint32_t>(payload.size()));
  AppendNumber(&record, common::Crc32c(payload));
  return record += payload;
}

SampleScan ScanSamples(std::string_view bytes,
                       const std::function<bool(const v1::SampleBucket&)>& record) {
  SampleScan scan;
  v1::SampleBucket bucket;
  size_t sound_until = 0;
  for (size_t at = 0; at < bytes.size();) {
    at = bytes.find(kSampleMagic, at);
    if (at == std::string_view::npos) break;
    const size_t size = SoundRecordAt(bytes, at, &bucket);
    if (size == 0) {
      ++at;
      continue;
    }
    scan.damaged_bytes += at - sound_until;
    ++scan.records;
    at += size;
    sound_until = at;
    if (!record(bucket)) return scan;
  }
  scan.rest_bytes = bytes.size() - sound_until;
  return scan;
}

absl::Status CheckSamples(const Paths& paths, SampleTotals* totals) {
  return WalkFiles(
      paths.Root(), "samples",
      {.file = [&](const TreeFile& file) -> absl::Status {
         if (!ParseSamplePath(file.path).has_value()) return absl::OkStatus();
         ++totals->files;
         totals->bytes += file.size;
         const absl::StatusOr<std::string> bytes = ReadWhole(paths, file);
         if (absl::IsUnavailable(bytes.status())) return bytes.status();
         totals->damaged_bytes +=
             bytes.ok() ? ScanSamples(*bytes, [](const auto&) { return true; }).damaged_bytes
                        : file.size;
         return absl::OkStatus();
       },
       .odd = [](const std::string&) { return absl::OkStatus(); },
       .unreadable = [](const std::string&, const auto&) { return absl::OkStatus(); }});
}

}  // namespace muster::coordinator
