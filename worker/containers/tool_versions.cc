#include "worker/containers/tool_versions.h"

#include <sys/stat.h>

#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "worker/containers/container_tools.h"

namespace muster::worker {
namespace {

constexpr size_t kFileBytesMax = 64 << 10;

// Tells one state of a program's file from another. Empty: it cannot be told.
std::string FileOf(const std::string& program) {
  struct stat info {};
  if (program.find_first_of("\t\n") != program.npos || stat(program.c_str(), &info) != 0) return {};
  return common::StrCat(program, " ", info.st_dev, " ", info.st_ino, " ", info.st_size, " ",
                        info.st_ctim.tv_sec, " ", info.st_ctim.tv_nsec);
}

}  // namespace

ToolVersions::ToolVersions(std::string path, std::function<std::string(const std::string&)> ask)
    : path_(std::move(path)), ask_(std::move(ask)) {
  const absl::StatusOr<std::string> text = common::ReadFile(path_, kFileBytesMax);
  if (!text.ok()) return;
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    const std::vector<std::string> fields = absl::StrSplit(line, '\t');
    if (fields.size() == 2 && VersionIn(fields[1]) == fields[1]) known_[fields[0]] = fields[1];
  }
}

std::string ToolVersions::Of(const std::string& program) {
  const std::string file = FileOf(program);
  const auto known = known_.find(file);
  const std::string version = known == known_.end() ? ask_(program) : known->second;
  if (!file.empty() && !version.empty()) used_[file] = version;
  return version;
}

void ToolVersions::Save() const {
  if (used_ == known_) return;
  std::string text;
  for (const auto& [file, version] : used_) common::StrAppend(&text, file, "\t", version, "\n");
  common::WriteFileAtomically(path_, text).IgnoreError();
}

}  // namespace muster::worker
