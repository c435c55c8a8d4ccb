// What ranks see of the kernel's own file systems. Each function changes this process's view, which is not the
// shim's, and returns an empty text or what failed.
#pragma once

#include <string>

namespace muster::shim {

// Makes cgroups read-only. If its account may write to them, a rank could move, freeze and kill the processes
// of other jobs.
std::string ProtectCgroups();

// Mounts a /proc with only the processes of the caller's PID namespace. Nothing in it or in /sys lets a
// process change the machine, not even as uid 0.
std::string MountOwnProc();

// Protects the files in /proc that could change the machine, also from uid 0.
std::string ProtectKernelFiles();

// /dev/mqueue of the caller's IPC namespace.
std::string MountOwnQueues();

}  // namespace muster::shim
