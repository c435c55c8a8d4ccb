#include "worker/limits/cgroup_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/files/cgroup_files.h"
#include "common/files/files.h"
#include "common/files/plain_files.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace {

// limit: nodes: a cgroup file that limits need; counts as unknown
constexpr size_t kCgroupFileBytesMax = 1 << 20;

class KernelDoor final : public CgroupFiles {
 public:
  std::string Read(const std::string& path) const override {
    return common::ReadFile(path, kCgroupFileBytesMax).value_or("");
  }
  bool Exists(const std::string& path) const override { return access(path.c_str(), F_OK) == 0; }
  int Write(const std::string& path, std::string_view text) override {
    return common::WriteControlFile(path, text) ? 0 : errno;
  }
  int MakeDirectory(const std::string& path) override {
    return mkdir(path.c_str(), 0755) == 0 || errno == EEXIST ? 0 : errno;
  }
  void RemoveDirectory(const std::string& path) override { rmdir(path.c_str()); }
  bool IsWritable(const std::string& directory) const override {
    return access(directory.c_str(), W_OK) == 0 &&
           access(common::StrCat(directory, "/cgroup.procs").c_str(), W_OK) == 0;
  }
  bool IsDelegated(const std::string& directory) const override {
    return common::IsDelegatedCgroup(directory);
  }
  bool UnderSystemd() const override { return access("/run/systemd/system", F_OK) == 0; }
  int ProcessId() const override { return getpid(); }
  unsigned UserId() const override { return getuid(); }
};

}  // namespace

CgroupFiles& KernelCgroups() {
  static KernelDoor files;
  return files;
}

}  // namespace muster::worker
