// The facts that `jobctl doctor` collects about a machine, without judgement, so that tests can
// describe a broken machine. read_*.cc fill them in, checks.cc judges them. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/reserved_ports.h"

namespace muster::client::doctor {

// A file that cannot be read leaves its fact empty, as if nothing were installed.
struct DeviceFacts {
  int nvidia_nodes = 0;       // /dev/nvidia0, /dev/nvidia1, …
  std::string nvidia_driver;  // "550.54.15"; empty: no driver is loaded
  std::string cuda_toolkit;   // "12.4"; empty: none is installed
  // NVIDIA's libraries that let an older driver run a newer CUDA, on data-center GPUs.
  bool has_cuda_compat = false;
  int ascend_nodes = 0;        // /dev/davinci0, …
  std::string ascend_driver;   // "24.1.rc2"
  std::string ascend_toolkit;  // CANN: "8.0.RC3"
  bool has_infiniband = false;
};

// What `python` on this machine would import; determined without importing anything.
struct PythonFacts {
  std::string program;     // "/home/me/.venv/bin/python"; empty: there is none in PATH
  std::string trouble;     // why it did not answer
  std::string torch;       // "2.13.0+cpu"; empty: not installed
  std::string torch_cuda;  // "12.4"; empty: not built for CUDA
  std::string torch_hip;
  std::string torch_npu;  // version of the adapter; empty: not installed
  std::string py_spy;     // where a private worker would find it; empty: nowhere
};

struct DiskFacts {
  std::string path;     // the nearest directory that exists
  std::string trouble;  // why it could not be measured
  uint64_t bytes = 0;
  uint64_t bytes_free = 0;  // for this user
  uint64_t inodes = 0;      // 0: the file system does not count them
  uint64_t inodes_free = 0;
};

inline constexpr uint64_t kUnlimited = UINT64_MAX;
struct LimitFacts {
  uint64_t soft = kUnlimited;
  uint64_t hard = kUnlimited;
};
struct LimitsFacts {
  LimitFacts open_files, processes, locked_memory, core_file;
  bool is_root = false;
};

struct NetworkFacts {
  std::string hostname;
  std::vector<std::string> addresses;  // of the host name, as ranks would resolve it
  std::string resolve_trouble;
  std::string loopback_trouble;  // why 127.0.0.1 could not be used
  int ports_tried = 0;           // a sample of the range that MASTER_PORT is taken from
  int ports_free = 0;
  uint16_t ephemeral_first = 0;  // what the kernel gives to outgoing connections
  uint16_t ephemeral_last = 0;
  std::vector<common::PortSpan> reserved;  // … except for these
};

struct ClockFacts {
  std::string trouble;
  bool synchronized = false;
  int64_t error_us = 0;  // the kernel's bound on how far it is off, while synchronized
  int64_t wall_s = 0;    // since 1970
};

struct MemoryFacts {
  std::string kill_level;         // how attempts are killed here: see kill_ladder.h
  bool kills_attributed = false;  // the kernel tells us which cgroup ran out of memory
  std::optional<int64_t> kills;   // of the OOM killer since boot
  bool log_readable = false;      // the kernel's log tells when
  std::optional<int64_t> last_kill_ago_s;
  std::string last_killed;  // "python (pid 1234)"
};

struct ProgramFacts {
  std::string trouble;  // a missing program of Muster, and where it was searched for
};

struct CoordinatorFacts {
  bool is_private = true;
  bool answers = false;
  std::string endpoint;
  std::string version;
  uint32_t protocol = 0;
  std::string trouble;  // why it does not answer
  std::string fix;
};

struct AllReduceFacts {
  bool done = false;
  int64_t took_ms = 0;
  std::string trouble;
  std::string fix;
};

struct MachineFacts {
  DeviceFacts devices;
  PythonFacts python;
  NetworkFacts network;
  ClockFacts clock;
  DiskFacts data_disk, temp_disk, shared_memory;
  LimitsFacts limits;
  MemoryFacts memory;
  ProgramFacts programs;
  CoordinatorFacts coordinator;
  AllReduceFacts all_reduce;
};

}  // namespace muster::client::doctor
