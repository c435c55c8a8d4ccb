// checkpoint_directory: lstat everything, follow no link.
#include "worker/checkpoints/checkpoint_directory.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/relative_path.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "worker/base/paths.h"

namespace muster::worker {
namespace {

constexpr size_t kEntriesMax = 2 * kCheckpointFilesMax;  // per step, directories included
constexpr size_t kStepsListedMax = 100'000;              // entries in the directory of all steps

bool ParsePartFile(const std::string& name, uint32_t* part, uint32_t* parts) {
  int used = 0;
  if (name.size() != 24 ||
      std::sscanf(name.c_str(), "part-%5u-of-%5u.json%n", part, parts, &used) != 2 || used != 24) {
    return false;
  }
  // sscanf accepts spaces and signs; only exactly five digits each make a part file.
  char canonical[32];
  std::snprintf(canonical, sizeof canonical, "part-%05u-of-%05u.json", *part, *parts);
  return name == canonical;
}

// Not opened because no descriptor was free, or deleted meanwhile: try again later.
bool IsPassing(int error) { return error == EMFILE || error == ENFILE || error == ENOENT; }

// nullopt: it cannot be inspected now.
std::optional<FoundStep> Inspect(const std::string& directory, int64_t step) {
  FoundStep found;
  found.step = step;
  struct stat info {};
  if (lstat(directory.c_str(), &info) != 0 && IsPassing(errno)) return std::nullopt;
  if (!S_ISDIR(info.st_mode)) {
    found.problem = "it is not a directory; fix: write into step-N.tmp and rename it";
    return found;
  }
  DIR* listing = opendir(directory.c_str());
  if (listing == nullptr) {
    if (IsPassing(errno)) return std::nullopt;
    found.problem = std::string(common::ErrnoStatus("it cannot be listed").message());
    return found;
  }
  int part_files = 0;
  size_t entries = 0;
  while (const dirent* entry = entries <= kEntriesMax ? readdir(listing) : nullptr) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    ++entries;
    uint32_t part = 0, parts = 0;
    if (!ParsePartFile(name, &part, &parts)) continue;
    ++part_files;
    found.part = part;
    found.parts = parts;
    if (part >= parts) found.problem = common::StrCat(name, ": parts count from 0");
  }
  closedir(listing);
  if (part_files > 1) {
    found.problem =
        common::StrCat("it contains ", part_files, " part files; fix: write one per node");
  }
  if (entries == 0) found.problem = "it is empty";
  if (entries > kEntriesMax) {
    found.problem = common::StrCat("it contains more than ", kCheckpointFilesMax, " files");
  }
  return found;
}

// `entries`: how many more are allowed, directories included.
absl::Status List(const std::string& root, const std::string& relative, int depth, size_t* entries,
                  std::vector<StepFile>* files) {
  const std::string directory = relative.empty() ? root : root + "/" + relative;
  const absl::StatusOr<std::vector<std::string>> names = common::ListDirectory(directory, *entries);
  if (absl::IsResourceExhausted(names.status())) {
    return absl::InvalidArgumentError(
        common::StrCat("it contains more than ", kCheckpointFilesMax, " files"));
  }
  RETURN_IF_ERROR(names.status());
  *entries -= names->size();
  for (const std::string& name : *names) {
    const std::string path = relative.empty() ? name : relative + "/" + name;
    RETURN_IF_ERROR(CheckRelativePath(path));
    struct stat info {};
    if (lstat((root + "/" + path).c_str(), &info) != 0) {
      return common::ErrnoStatus(common::StrCat("cannot inspect ", path));
    }
    if (S_ISDIR(info.st_mode)) {
      if (depth >= kCheckpointDepthMax) {
        return absl::InvalidArgumentError(common::StrCat(
            common::Printable(path), " is deeper than ", kCheckpointDepthMax, " directories"));
      }
      RETURN_IF_ERROR(List(root, path, depth + 1, entries, files));
      continue;
    }
    if (!S_ISREG(info.st_mode)) {
      return absl::InvalidArgumentError(
          common::StrCat(common::Printable(path),
                         S_ISLNK(info.st_mode) ? " is a symbolic link" : " is not a regular file",
                         "; fix: a checkpoint may contain only regular files"));
    }
    if (files->size() >= kCheckpointFilesMax) {
      return absl::InvalidArgumentError(
          common::StrCat("it contains more than ", kCheckpointFilesMax, " files"));
    }
    files->push_back({path, static_cast<uint64_t>(info.st_size)});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<FoundStep>> FindSteps(const std::string& checkpoints_dir,
                                                 const std::set<int64_t>& seen, size_t max) {
  std::vector<FoundStep> steps;
  DIR* listing = opendir(checkpoints_dir.c_str());
  if (listing == nullptr) {
    if (errno == ENOENT) return steps;
    return common::ErrnoStatus(common::StrCat("cannot list ", checkpoints_dir));
  }
  std::vector<int64_t> numbers;
  size_t entries = 0;
  while (const dirent* entry = ++entries <= kStepsListedMax ? readdir(listing) : nullptr) {
    const auto step = ParseStep(entry->d_name);
    if (step && seen.count(*step) == 0) numbers.push_back(*step);
  }
  closedir(listing);
  std::sort(numbers.begin(), numbers.end());
  for (const int64_t step : numbers) {
    if (steps.size() == max) break;
    auto found = Inspect(common::StrCat(checkpoints_dir, "/", StepName(step)), step);
    if (found) steps.push_back(*std::move(found));
  }
  return steps;
}

absl::StatusOr<std::vector<StepFile>> ListStepFiles(const std::string& step_dir) {
  std::vector<StepFile> files;
  size_t entries = kEntriesMax;
  RETURN_IF_ERROR(List(step_dir, "", 0, &entries, &files));
  std::sort(files.begin(), files.end(),
            [](const StepFile& a, const StepFile& b) { return a.path < b.path; });
  return files;
}

absl::Status CheckRelativePath(std::string_view path) {
  const auto bad = [&](const char* why) {
    return absl::InvalidArgumentError(
        common::StrCat("the file name \"", common::Printable(path), "\" ", why));
  };
  if (path.empty() || path.size() > 1024) return bad("must be 1 to 1,024 bytes long");
  if (path.front() == '/') return bad("is absolute");
  if (!common::IsCleanUtf8(path)) return bad("has control characters or is not UTF-8");
  if (!common::StaysInside(path)) return bad("has an empty, \".\" or \"..\" component");
  return absl::OkStatus();
}

}  // namespace muster::worker
