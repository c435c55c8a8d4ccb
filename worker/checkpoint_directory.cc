// checkpoint_directory: lstat everything, follow nothing.
#include "worker/checkpoint_directory.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>

#include "common/files.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/text.h"
#include "worker/paths.h"

namespace muster::worker {
namespace {

bool ParsePartFile(const std::string& name, uint32_t* part, uint32_t* parts) {
  int used = 0;
  if (name.size() != 24 ||
      std::sscanf(name.c_str(), "part-%5u-of-%5u.json%n", part, parts, &used) != 2 || used != 24) {
    return false;
  }
  // sscanf takes blanks and signs; only five digits each are a part file.
  char canonical[32];
  std::snprintf(canonical, sizeof canonical, "part-%05u-of-%05u.json", *part, *parts);
  return name == canonical;
}

FoundStep Inspect(const std::string& directory, int64_t step) {
  FoundStep found;
  found.step = step;
  struct stat info {};
  if (lstat(directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    found.problem = "it is not a directory; fix: write into step-N.tmp and rename it";
    return found;
  }
  const absl::StatusOr<std::vector<std::string>> names = common::ListDirectory(directory);
  if (!names.ok()) {
    found.problem = std::string(names.status().message());
    return found;
  }
  int part_files = 0;
  for (const std::string& name : *names) {
    uint32_t part = 0, parts = 0;
    if (!ParsePartFile(name, &part, &parts)) continue;
    ++part_files;
    found.part = part;
    found.parts = parts;
    if (part >= parts) found.problem = common::StrCat(name, ": parts count from 0");
  }
  if (part_files > 1) {
    found.problem = common::StrCat("it holds ", part_files, " part files; fix: one per node");
  }
  if (names->empty()) found.problem = "it is empty";
  return found;
}

absl::Status List(const std::string& root, const std::string& relative, int depth,
                  std::vector<StepFile>* files) {
  const std::string directory = relative.empty() ? root : root + "/" + relative;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, common::ListDirectory(directory));
  for (const std::string& name : names) {
    const std::string path = relative.empty() ? name : relative + "/" + name;
    RETURN_IF_ERROR(CheckRelativePath(path));
    struct stat info {};
    if (lstat((root + "/" + path).c_str(), &info) != 0) {
      return common::ErrnoStatus(common::StrCat("cannot look at ", path));
    }
    if (S_ISDIR(info.st_mode)) {
      if (depth >= kCheckpointDepthMax) {
        return absl::InvalidArgumentError(common::StrCat(
            common::Printable(path), " is deeper than ", kCheckpointDepthMax, " directories"));
      }
      RETURN_IF_ERROR(List(root, path, depth + 1, files));
      continue;
    }
    if (!S_ISREG(info.st_mode)) {
      return absl::InvalidArgumentError(
          common::StrCat(common::Printable(path),
                         S_ISLNK(info.st_mode) ? " is a symbolic link" : " is no regular file",
                         "; fix: a checkpoint holds regular files only"));
    }
    if (files->size() >= kCheckpointFilesMax) {
      return absl::InvalidArgumentError(
          common::StrCat("it holds more than ", kCheckpointFilesMax, " files"));
    }
    files->push_back({path, static_cast<uint64_t>(info.st_size)});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<FoundStep>> FindSteps(const std::string& checkpoints_dir) {
  std::vector<FoundStep> steps;
  DIR* listing = opendir(checkpoints_dir.c_str());
  if (listing == nullptr) {
    if (errno == ENOENT) return steps;
    return common::ErrnoStatus(common::StrCat("cannot list ", checkpoints_dir));
  }
  std::vector<int64_t> numbers;
  while (const dirent* entry = readdir(listing)) {
    if (const auto step = ParseStep(entry->d_name)) numbers.push_back(*step);
  }
  closedir(listing);
  std::sort(numbers.begin(), numbers.end());
  for (const int64_t step : numbers) {
    steps.push_back(Inspect(common::StrCat(checkpoints_dir, "/", StepName(step)), step));
  }
  return steps;
}

absl::StatusOr<std::vector<StepFile>> ListStepFiles(const std::string& step_dir) {
  std::vector<StepFile> files;
  RETURN_IF_ERROR(List(step_dir, "", 0, &files));
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
  size_t at = 0;
  while (at <= path.size()) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view component = path.substr(at, end - at);
    if (component.empty() || component == "." || component == "..") {
      return bad("has an empty, \".\" or \"..\" component");
    }
    at = end + 1;
  }
  return absl::OkStatus();
}

}  // namespace muster::worker
