// The list of a package's files, which the package contains. `sha256sum --check` can read it, too. Pure.
//
//   # muster-files 1
//   # package: muster-worker 0.3.0
//   # signed-by: SHA256:5f0c…            or "nobody"
//   # whole: usr/libexec/muster          a directory that has nothing else
//   c0ffee… usr/bin/muster-worker relative to the root of the installation
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::client {

struct ListedFile {
  std::string path;
  std::string sha256;
};

struct FilesList {
  std::string package;    // "muster-worker 0.3.0"
  std::string signed_by;  // "SHA256:5f0c…"; empty: unsigned
  std::vector<std::string> whole;
  std::vector<ListedFile> files;
};

// INVALID_ARGUMENT names the malformed line.
absl::StatusOr<FilesList> ParseFilesList(std::string_view text);

}  // namespace muster::client
