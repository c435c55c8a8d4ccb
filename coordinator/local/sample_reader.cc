#include "coordinator/local/sample_reader.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/base/status.h"
#include "common/files/files.h"
#include "coordinator/base/file_tree.h"

namespace muster::coordinator {
namespace {

// Files are named by the coordinator's clock, samples carry their node's: they may differ by this.
constexpr int64_t kClocksApartMs = 15 * 60'000;

bool IsSameStream(const SampleFile& a, const SampleFile& b) {
  return std::tie(a.attempt, a.node_folder) == std::tie(b.attempt, b.node_folder);
}

}  // namespace

absl::StatusOr<bool> LocalSampleReader::Next(v1::SampleBucket& bucket) {
  if (!std::exchange(is_listed_, true)) RETURN_IF_ERROR(FindFiles());
  while (found_.empty()) {
    if (files_.empty()) return false;
    RETURN_IF_ERROR(ReadFile(files_.front()));
    files_.pop_front();
  }
  bucket = std::move(found_.front());
  found_.pop_front();
  return true;
}

absl::Status LocalSampleReader::FindFiles() {
  const std::string folder = query_.node.empty() ? "" : SampleNodeFolder(query_.node);
  RETURN_IF_ERROR(
      WalkFiles(paths_.Root(), paths_.BelowRoot(paths_.SampleDirectory(query_.job)),
                {.file =
                     [&](const TreeFile& path) {
                       const std::optional<SampleFile> file = ParseSamplePath(path.path);
                       const bool is_wanted =
                           file.has_value() && kSampleTiers[file->tier].tier == query_.tier &&
                           (!query_.attempt.has_value() || file->attempt == *query_.attempt) &&
                           (folder.empty() || file->node_folder == folder);
                       if (is_wanted) files_.push_back(*file);
                       return absl::OkStatus();
                     },
                 .odd = [](const std::string&) { return absl::OkStatus(); }}));
  std::sort(files_.begin(), files_.end());
  // A file ends where the next one of its stream begins: skip it if that was long before.
  std::deque<SampleFile> needed;
  for (size_t i = 0; i < files_.size(); ++i) {
    const bool is_followed = i + 1 < files_.size() && IsSameStream(files_[i], files_[i + 1]);
    if (is_followed && files_[i + 1].begun_ms < query_.since_ms - kClocksApartMs) continue;
    needed.push_back(files_[i]);
  }
  files_ = std::move(needed);
  return absl::OkStatus();
}

absl::Status LocalSampleReader::ReadFile(const SampleFile& file) {
  const absl::StatusOr<common::UniqueFd> opened = OpenBelow(paths_.Root(), file.Path(), O_RDONLY);
  if (absl::IsNotFound(opened.status())) return absl::OkStatus();  // it expired meanwhile
  RETURN_IF_ERROR(opened.status());
  struct stat info {};
  if (fstat(opened->get(), &info) != 0) return common::ErrnoStatus(file.Path());
  ASSIGN_OR_RETURN(
      const std::string bytes,
      common::ReadAt(opened->get(), 0,
                     std::min(static_cast<uint64_t>(info.st_size), kSampleBytesReadMax),
                     file.Path()));
  ScanSamples(bytes, [this](const v1::SampleBucket& bucket) {
    if (bucket.last().time_ms() >= query_.since_ms) found_.push_back(bucket);
    return true;
  });
  return absl::OkStatus();
}

}  // namespace muster::coordinator
