#include "worker/sampling/descriptors.h"

#include <dirent.h>
#include <limits.h>
#include <unistd.h>

#include <memory>

namespace muster::worker {

std::string LinkTarget(const std::string& link) {
  char target[PATH_MAX];
  const ssize_t size = readlink(link.c_str(), target, sizeof target);
  return std::string(target, size > 0 ? static_cast<size_t>(size) : 0);
}

void ForEachDescriptor(
    const std::string& process, size_t& left,
    const std::function<void(const std::string& link, const std::string& target)>& each) {
  const std::string directory = process + "/fd";
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(directory.c_str()), closedir);
  while (const dirent* entry = open != nullptr && left > 0 ? readdir(open.get()) : nullptr) {
    --left;
    const std::string link = directory + "/" + entry->d_name;
    const std::string target = LinkTarget(link);
    if (!target.empty()) each(link, target);
  }
}

bool IsOpenForWriting(const std::string& link, struct stat* info) {
  struct stat mode {};
  return lstat(link.c_str(), &mode) == 0 && (mode.st_mode & S_IWUSR) != 0 &&
         stat(link.c_str(), info) == 0;
}

}  // namespace muster::worker
