// The OCI runtime configuration (1.0) of one rank. Pure; any thread.
//
// The rank has its own mount and UTS namespaces; its IPC namespace (shim/container_mounts.h) and its
// processes (shim/process_space.h) are the attempt's, and the network is the node's, because ranks meet
// at addresses that the coordinator gave them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::worker {

struct BundleMount {
  std::string source;
  std::string target;
  bool read_only = false;
  bool is_device = false;      // of /dev
  bool is_as_mounted = false;  // keeps its own read-only flags: other mounts lie inside it
};

// The runtime runs it before the rank's program, with more rights than the rank has: so it comes only
// from the node's own specifications (cdi.h).
struct BundleHook {
  std::string path;
  std::vector<std::string> args;
  std::vector<std::string> env;
};

struct Bundle {
  std::string root;       // its file system: the image with the attempt's layer over it
  std::string shm;        // becomes /dev/shm
  std::string processes;  // the PID namespace that it joins; empty: the node's
  std::vector<std::string> argv;
  std::vector<std::string> env;
  std::string workdir;
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<uint32_t> groups;
  // Empty directories at the node's paths, so that mounts below them leave no trace in the layer.
  std::vector<std::string> covers;
  std::vector<BundleMount> mounts;  // in this order
  std::vector<BundleHook> hooks;
};

std::string BundleJson(const Bundle& bundle);

}  // namespace muster::worker
