// Access to the kernel's cgroup files; tests replace it. The files that it reads are untrusted, so
// reads are bounded. Control loop's thread, and the main thread before it runs.
#pragma once

#include <string>
#include <string_view>

namespace muster::worker {

class CgroupFiles {
 public:
  virtual ~CgroupFiles() = default;

  // At most 1 MiB; empty if it cannot be read.
  virtual std::string Read(const std::string& path) const = 0;
  virtual bool Exists(const std::string& path) const = 0;
  // Both return 0 or an errno; an existing directory counts as made.
  virtual int Write(const std::string& path, std::string_view text) = 0;
  virtual int MakeDirectory(const std::string& path) = 0;
  virtual void RemoveDirectory(const std::string& path) = 0;

  // Whether the user may create cgroups below, as far as permissions tell.
  virtual bool IsWritable(const std::string& directory) const = 0;
  virtual bool IsDelegated(const std::string& directory) const = 0;
  virtual bool UnderSystemd() const = 0;
  virtual int ProcessId() const = 0;
  virtual unsigned UserId() const = 0;
};

// /proc and /sys of this process.
CgroupFiles& KernelCgroups();

}  // namespace muster::worker
