// TensorBoard event files as a run.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "client/compare/read_run.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/tensorboard/event_file.h"
#include "common/text/strings.h"

namespace muster::client {
namespace {

namespace fs = std::filesystem;
using common::StrCat;

constexpr size_t kEventPieceBytes = 1 << 20;
constexpr uint64_t kScalarRecordMax = 256 * 1024;  // no scalar is larger; larger ones are skipped
constexpr int kEntriesMax = 20'000;                // of a directory that is searched
constexpr int kDepthMax = 8;

absl::Status NotEvents(const std::string& path, std::string_view what) {
  return NotMetrics(StrCat(path, ": ", what),
                    "name a TensorBoard event file, a directory with event files, or a CSV file");
}

// The records of one file, in pieces.
class EventFileReader {
 public:
  EventFileReader(const std::string& path, common::UniqueFd fd) : path_(path), fd_(std::move(fd)) {}

  // False at the end, and at an incomplete record, which its writer has not finished.
  absl::StatusOr<bool> Next(common::EventRecord* record) {
    while (true) {
      ASSIGN_OR_RETURN(const bool has_header, Fill(common::kFrameHeaderBytes));
      if (!has_header) return false;
      const absl::StatusOr<uint64_t> frame = common::FrameBytes(Rest());
      if (!frame.ok()) return Damaged();
      if (*frame > kScalarRecordMax) {
        offset_ += *frame;
        buffer_.clear();
        begin_ = 0;
        continue;
      }
      ASSIGN_OR_RETURN(const bool has_record, Fill(*frame));
      if (!has_record) return false;
      auto read = common::ReadEventRecord(Rest());
      if (!read.ok() || !read->has_value()) return Damaged();
      *record = std::move((*read)->event);
      begin_ += *frame;
      offset_ += *frame;
      return true;
    }
  }

 private:
  std::string_view Rest() const { return std::string_view(buffer_).substr(begin_); }
  absl::Status Damaged() const {
    return NotEvents(path_, StrCat("the record at offset ", offset_,
                                   " is damaged, or this is not a TensorBoard event file"));
  }
  absl::StatusOr<bool> Fill(uint64_t bytes) {
    if (Rest().size() >= bytes) return true;
    buffer_.erase(0, begin_);
    begin_ = 0;
    ASSIGN_OR_RETURN(const std::string more,
                     common::ReadAt(fd_.get(), offset_ + buffer_.size(), kEventPieceBytes, path_));
    buffer_ += more;
    return buffer_.size() >= bytes;
  }

  const std::string path_;
  const common::UniqueFd fd_;
  std::string buffer_;
  size_t begin_ = 0;     // of the unread bytes, in buffer_
  uint64_t offset_ = 0;  // of begin_ in the file
};

using FilesByDirectory = std::map<std::string, std::set<std::string>>;

absl::StatusOr<FilesByDirectory> FindEventFilesBelow(const std::string& root) {
  FilesByDirectory found;
  std::error_code error;
  int entries = 0;
  for (fs::recursive_directory_iterator
           at(root, fs::directory_options::skip_permission_denied, error),
       end;
       !error && at != end; at.increment(error)) {
    if (++entries > kEntriesMax) {
      return NotEvents(root, StrCat("it has more than ", kEntriesMax, " files"));
    }
    if (at.depth() >= kDepthMax) at.disable_recursion_pending();
    std::error_code ignored;
    if (at->path().filename().string().find("tfevents") != std::string::npos &&
        at->is_regular_file(ignored)) {
      found[at->path().parent_path().string()].insert(at->path().string());
    }
  }
  if (error) {
    return UnreadableRun(
        absl::PermissionDeniedError(StrCat("cannot list ", root, ": ", error.message())));
  }
  if (found.empty()) return NotEvents(root, "the directory has no TensorBoard event files");
  return found;
}

// Accelerate and SummaryWriter.add_hparams write directories that hold settings and no scalar.
absl::StatusOr<bool> HasScalars(const std::set<std::string>& paths) {
  for (const std::string& path : paths) {
    absl::StatusOr<common::UniqueFd> file = common::OpenRegular(path, O_RDONLY);
    if (!file.ok()) return UnreadableRun(file.status());
    EventFileReader reader(path, *std::move(file));
    common::EventRecord record;
    while (true) {
      ASSIGN_OR_RETURN(const bool more, reader.Next(&record));
      if (!more) break;
      if (!record.scalars.empty()) return true;
    }
  }
  return false;
}

absl::Status AddEventFile(const std::string& path, const std::string& prefix,
                          compare::RunBuilder* run) {
  absl::StatusOr<common::UniqueFd> file = common::OpenRegular(path, O_RDONLY);
  if (!file.ok()) return UnreadableRun(file.status());
  EventFileReader reader(path, *std::move(file));
  std::set<std::string> begun;  // a restarted run writes a new file and repeats steps in it
  common::EventRecord record;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next(&record));
    if (!more) return absl::OkStatus();
    for (const common::Scalar& scalar : record.scalars) {
      const std::string name = prefix + scalar.tag;
      if (begun.insert(name).second) run->ReplaceFrom(name, record.step);
      RETURN_IF_ERROR(run->Add(name, 0, record.step, scalar.value));
    }
  }
}

}  // namespace

absl::StatusOr<compare::ComparedRun> ReadEventRun(const std::string& path,
                                                  const compare::WantedMetrics& wanted,
                                                  compare::PointBudget* budget) {
  compare::RunBuilder run(wanted, budget);
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    return UnreadableRun(common::ErrnoStatus(StrCat("cannot open ", path)));
  }
  if (!S_ISDIR(info.st_mode)) {
    RETURN_IF_ERROR(AddEventFile(path, "", &run));
    return run.Finish(path);
  }
  ASSIGN_OR_RETURN(FilesByDirectory found, FindEventFilesBelow(path));
  for (auto directory = found.begin(); directory != found.end();) {
    ASSIGN_OR_RETURN(const bool has_scalars, HasScalars(directory->second));
    directory = has_scalars ? std::next(directory) : found.erase(directory);
  }
  for (const auto& [directory, files] : found) {
    const std::string below = fs::path(directory).lexically_relative(path).string();
    const bool has_prefix = found.size() > 1 && below != "." && !below.empty();
    for (const std::string& file : files) {
      RETURN_IF_ERROR(AddEventFile(file, has_prefix ? below + "/" : "", &run));
    }
  }
  return run.Finish(path);
}

}  // namespace muster::client
