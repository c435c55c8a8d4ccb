// A shell function that the scripts on nodes share.
#pragma once

#include <string_view>

namespace muster::client::cluster {

// running PROGRAM: the ids of the processes that run the file with this absolute path, as the kernel
// reports it. The kernel appends " (deleted)" once the file is removed or replaced.
inline constexpr std::string_view kRunningShell = R"sh(
running() {
  for process in /proc/[0-9]*; do
    case $(readlink "$process/exe" 2>/dev/null) in
    "$1" | "$1 (deleted)") echo "${process#/proc/}" ;;
    esac
  done
}
)sh";

}  // namespace muster::client::cluster
