// Makes the ranks' view of the file system: one mount namespace for all ranks of an attempt, so that they share
// /tmp, /dev/shm and System V memory with each other (NCCL and MPI meet there) and with no other job. All of it
// is gone when the last rank has exited.
#pragma once

#include <functional>
#include <string>

#include "common/kernel/shim_protocol.h"

namespace muster::shim {

// Descriptors for setns(2); -1: no separate namespace.
struct RankMounts {
  int mounts_fd = -1;
  int ipc_fd = -1;
};

// Runs `arrange`, which makes namespaces and returns nothing or what failed, in a short-lived process and holds
// its mount namespace; with `own_ipc` also its IPC namespace. The caller blocks SIGCHLD, or can handle one.
RankMounts HoldNamespaces(const std::function<std::string()>& arrange, bool own_ipc,
                          std::string* failure);

// Calls `open` while this thread has the account's rights to files. Empty, or what failed.
std::string WithFileRights(const common::LaunchAccount& account,
                           const std::function<std::string()>& open);

// Makes the mounts in a short-lived process, so that the caller keeps its own view. If the descriptors
// are empty, `failure` has the reason. With has_own_processes the caller has called StartInside
// (process_space.h). The caller blocks SIGCHLD, or can handle one.
RankMounts MakeRankMounts(const common::LaunchSandbox& sandbox,
                          const common::LaunchAccount& account, std::string* failure);

}  // namespace muster::shim
