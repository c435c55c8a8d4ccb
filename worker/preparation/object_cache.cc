#include "worker/preparation/object_cache.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/units.h"

namespace muster::worker {

absl::StatusOr<ObjectCache::File> ObjectCache::Get(const std::string& project, const Blob& blob,
                                                   const Progress& progress,
                                                   const std::function<void(uint64_t)>& fetched) {
  const std::string name = common::StrCat(project, "/", blob.sha256);
  ASSIGN_OR_RETURN(const Turns::Turn turn, turns_.Take(name, progress));
  {
    std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(files_, [](const auto& file) { return file.second.expired(); });
    if (const auto found = files_.find(name); found != files_.end()) {
      if (File file = found->second.lock()) return file;
    }
  }
  ASSIGN_OR_RETURN(common::UniqueFd fd, MakeFile());
  const Progress to_others =
      turn.Shared({.key = progress.key, .say = [](const std::string&) {}, .stopped = {}});
  RETURN_IF_ERROR(fetch_(blob, progress.key, fd.get(), progress.stopped, [&](uint64_t bytes) {
    fetched(bytes);
    to_others.say(common::StrCat("fetching code with another job: ", common::HumanBytes(bytes),
                                 " of ", common::HumanBytes(blob.size)));
  }));
  File file = std::make_shared<const common::UniqueFd>(std::move(fd));
  std::lock_guard<std::mutex> lock(mutex_);
  files_[name] = file;
  return file;
}

absl::StatusOr<common::UniqueFd> ObjectCache::MakeFile() const {
  common::UniqueFd fd(open(directory_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd.valid()) return fd;
  // Not every file system supports files without a name.
  std::string path = directory_ + "/object-XXXXXX";
  fd = common::UniqueFd(mkostemp(path.data(), O_CLOEXEC));
  if (!fd.valid())
    return common::ErrnoStatus(common::StrCat("cannot create a file in ", directory_));
  unlink(path.c_str());
  return fd;
}

}  // namespace muster::worker
