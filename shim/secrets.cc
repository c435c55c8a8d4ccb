#include "shim/secrets.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace muster::shim {
namespace {

int OpenOwn(int at, const std::string& name) {
  const int fd = openat(at, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat info {};
  if (fd < 0 || (fstat(fd, &info) == 0 && info.st_uid == geteuid())) return fd;
  close(fd);
  return -1;
}

void RemoveFiles(int fd) {
  DIR* const files = fdopendir(fd);
  if (files == nullptr) return;
  while (const dirent* file = readdir(files)) unlinkat(fd, file->d_name, 0);
  closedir(files);
}

}  // namespace

void RemoveSecrets(const std::string& directory) {
  const size_t slash = directory.rfind('/');
  if (slash == std::string::npos || slash == 0) return;
  const std::string root = directory.substr(0, slash);
  const std::string name = directory.substr(slash + 1);
  const int above = OpenOwn(AT_FDCWD, root);
  if (above < 0) return;
  if (const int fd = OpenOwn(above, name); fd >= 0) RemoveFiles(fd);
  unlinkat(above, name.c_str(), AT_REMOVEDIR);
  close(above);
  rmdir(root.c_str());  // if it was the last one
}

}  // namespace muster::shim
