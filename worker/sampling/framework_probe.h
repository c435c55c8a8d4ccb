// Determines from outside which framework a process has loaded and for which CUDA it was built: the names of
// its mapped files lead to the framework's own version file. That file belongs to the job, so reading is
// bounded, and only text that looks like a version is kept. Blocks; an attempt's thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "worker/confinement/rank_account.h"

namespace muster::worker {

struct FrameworkVersions {
  std::string framework;  // "torch 2.11.0+cu130"; "torch": the version is not known
  std::string toolkit;    // "13.0"; "cpu": built without CUDA; empty: not known
  bool operator==(const FrameworkVersions&) const = default;
};

// From the text of /proc/PID/maps.
struct MappedFramework {
  std::string directory;  // of the installed torch, without /lib; empty: it is not loaded
  std::string cudart;     // the version in the name of CUDA's runtime library: "12", "11.8"
};
MappedFramework FindMapped(std::string_view maps);

// From torch/version.py of a Python package.
FrameworkVersions ParseVersionPy(std::string_view text);
// From the file build-version of a LibTorch archive: "2.4.0+cu124".
FrameworkVersions ParseBuildVersion(std::string_view text);

// Empty: it has loaded none, or is gone. The framework's files are read as the ranks' account, in the
// process' own root. `proc`: tests pass their own.
std::optional<FrameworkVersions> ProbeFramework(pid_t pid, const RankAccount& account,
                                                const std::string& proc = "/proc");

}  // namespace muster::worker
