// What ranks see of the kernel's own file systems. All is done to this process's view, which is not the
// shim's. Each returns nothing, or what failed.
#pragma once

#include <string>

namespace muster::shim {

// Where its account may write to them, a rank could move, freeze and kill the processes of other jobs.
std::string ProtectCgroups();

// /proc with the processes of the caller's PID namespace alone, and nothing there and in /sys to change
// the machine by, also for uid 0.
std::string MountOwnProc();

// Nothing in /proc to change the machine by, also for uid 0.
std::string ProtectKernelFiles();

// /dev/mqueue of the caller's IPC namespace.
std::string MountOwnQueues();

}  // namespace muster::shim
