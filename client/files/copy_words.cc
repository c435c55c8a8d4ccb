#include "client/files/copy_words.h"

#include <sys/stat.h>

#include <optional>

#include "client/command_line/errors.h"
#include "common/outputs.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;

bool IsDirectory(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

bool IsRemote(std::string_view word) {
  const size_t colon = word.find(':');
  return colon != std::string_view::npos && colon > 0 && word.find('/') > colon;
}

absl::StatusOr<RemotePath> ParseRemote(const std::string& word) {
  if (!IsRemote(word)) {
    return Usage("JC1004", StrCat("\"", common::Printable(word), "\" is not JOB:PATH"),
                 "jobctl cp JOB:PATH DEST; JOB: alone is everything");
  }
  const size_t colon = word.find(':');
  const std::string path = word.substr(colon + 1);
  const auto clean = path.empty() ? std::string() : common::CleanOutput(path);
  if (!clean.has_value()) {
    return Usage("JC1004",
                 StrCat("the path \"", common::Printable(path),
                        "\" does not lie in the job's working directory"),
                 "name it as in outputs:, relative to the working directory");
  }
  return RemotePath{ParseAttemptOfJob(word.substr(0, colon)), *clean};
}

Placed PlaceOf(const RemotePath& source, const std::string& destination, bool may_rename,
               const std::vector<v1::CheckpointFile>& files) {
  const bool is_file = files.size() == 1 && files[0].path() == source.path;
  if (is_file && may_rename && !destination.ends_with('/') && !IsDirectory(destination)) {
    const size_t slash = destination.rfind('/');
    const std::string parent = slash == std::string::npos ? "."
                               : slash == 0               ? "/"
                                                          : destination.substr(0, slash);
    const std::string name = destination.substr(slash == std::string::npos ? 0 : slash + 1);
    if (name != "." && name != "..") return {parent, name};
  }
  return {destination, source.path.substr(source.path.rfind('/') + 1)};
}

std::string NameBelow(const Placed& placed, const RemotePath& source,
                      const v1::CheckpointFile& file) {
  if (source.path.empty()) return file.path();
  return placed.name + file.path().substr(source.path.size());
}

}  // namespace muster::client
