// The OCI runtime configuration (1.0) of one rank. Pure; any thread.
//
// The rank has its own mount and UTS namespaces; its IPC namespace is the attempt's (shim/
// container_mounts.h), its network and process numbers are the node's. Process numbers, because
// everything that Muster knows of a rank goes by them: the shim is the parent of its first process and
// subreaper of the rest, what is left is found by the mark in /proc, samples and stacks are taken from
// outside, and the trainer's socket names its peer. The network, because ranks meet at addresses that
// the coordinator gave them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::worker {

struct BundleMount {
  std::string source;
  std::string target;
  bool read_only = false;
  bool is_device = false;  // of /dev
};

// Run by the runtime before the rank's program, outside of its rights: only from the node's own
// specifications (cdi.h).
struct BundleHook {
  std::string path;
  std::vector<std::string> args;
  std::vector<std::string> env;
};

struct Bundle {
  std::string root;  // its file system: the image with the attempt's layer over it
  std::string shm;   // becomes /dev/shm
  std::vector<std::string> argv;
  std::vector<std::string> env;
  std::string workdir;
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<uint32_t> groups;
  // Empty directories at paths of the node's, so that what is mounted below leaves no trace in the
  // layer.
  std::vector<std::string> covers;
  std::vector<BundleMount> mounts;  // in this order
  std::vector<BundleHook> hooks;
};

std::string BundleJson(const Bundle& bundle);

}  // namespace muster::worker
