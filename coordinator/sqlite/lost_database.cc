#include "coordinator/sqlite/lost_database.h"

#include <sys/stat.h>

#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/base/file_tree.h"

namespace muster::coordinator {
namespace {

// The first file in one of the folders with jobs' data; empty: there is none. A folder may be a
// link to another disk.
std::string AnyFileOfAJob(const Paths& paths) {
  std::string found;
  for (const char* folder : {"logs", "metrics", "blobs"}) {
    const auto stop = [&](const TreeFile& file) {
      found = common::StrCat(folder, file.path.substr(1));
      return absl::CancelledError();
    };
    WalkFiles(common::StrCat(paths.Root(), "/", folder), ".",
              {.file = stop, .odd = [](const std::string&) { return absl::OkStatus(); }})
        .IgnoreError();
    if (!found.empty()) break;
  }
  return found;
}

}  // namespace

absl::Status RefuseLostDatabase(const Paths& paths) {
  struct stat info {};
  if (stat(paths.Database().c_str(), &info) == 0 && info.st_size > 0) return absl::OkStatus();
  const std::string file = AnyFileOfAJob(paths);
  if (file.empty()) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1606",
       .what = common::StrCat(paths.Database(), " is missing"),
       .why = common::StrCat("the data directory holds files of jobs (", file,
                             "), so it is not a new one"),
       .fix = common::StrCat("restore a backup (muster-coordinator restore); or, to start over "
                             "without these jobs, move ",
                             paths.Root(), " away or name an empty --data-dir")});
}

}  // namespace muster::coordinator
