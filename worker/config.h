// The command line of muster-worker, parsed and validated. Main thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kernel/kill_ladder.h"
#include "muster/v1/event.pb.h"
#include "worker/base/paths.h"
#include "worker/confinement/run_as.h"
#include "worker/limits/limit_host.h"
#include "worker/membership/identity.h"
#include "worker/preparation/code_cache.h"
#include "worker/rendezvous/port_holder.h"

namespace muster::worker {

struct Config {
  std::string
      coordinator;  // "unix:/path" or "HOST:PORT", or several of them (worker/base/addresses.h)
  std::vector<std::string> coordinators;  // the same as a list; set by CheckConfig
  std::string name;
  std::string devices;      // "cpu:2,gpu"; empty: all
  std::string device_root;  // precedes /dev/davinciN and /etc/hccn.conf; empty: nothing does
  std::string state_dir;
  std::string runtime_dir;
  std::string advertise;
  PortRange ports;
  bool is_private = false;
  std::string log_file;
  uint64_t code_cache_bytes = kCodeCacheBytes;
  std::string shim_binary;
  std::string rendezvous_binary;
  std::string run_as_flag;  // empty: DefaultRunAs
  bool allows_root = false;
  std::string sandbox_flag;  // "none", "on"; empty: on if ranks have another account
  RunAs run_as;              // set by CheckConfig
  bool is_secured = false;   // the node has joined a cluster with identities
};

// An invalid command line, --help and --version stop the program: `text` goes to stderr, or to
// stdout if `exit_code` is 0.
struct ParsedFlags {
  Config config;
  bool stop = false;
  int exit_code = 0;
  std::string text;
};
ParsedFlags ParseFlags(int argc, char** argv);

// muster-worker join.
struct JoinOptions {
  std::string address;  // HOST:PORT of HTTPS, or several, separated by commas
  std::string token;
  std::string token_file;  // "-": standard input
  std::string name;        // empty: the host name
  std::string state_dir = "/var/lib/muster/worker";
  bool again = false;      // replaces existing credentials
  bool if_needed = false;  // does nothing if credentials exist
};
struct ParsedJoin {
  JoinOptions options;
  bool stop = false;  // as above
  int exit_code = 0;
  std::string text;
};
// `argv[0]` is "join".
ParsedJoin ParseJoinFlags(int argc, char** argv);

// muster-worker init.
struct InitOptions {
  int64_t stop_within_ms = 8'000;  // docker stop waits 10 s, Kubernetes 30 s
  std::string join;                // as JoinOptions.address; empty: the node is not joined
  std::string token_file;
  std::vector<std::string> worker;  // the worker's flags
  Config config;                    // the same flags, parsed
};
struct ParsedInit {
  InitOptions options;
  bool stop = false;  // as above
  int exit_code = 0;
  std::string text;
};
// `argv[0]` is "init".
ParsedInit ParseInitFlags(int argc, char** argv);

// INVALID_ARGUMENT names the value, the reason and the fix.
absl::Status CheckConfig(Config* config);
absl::StatusOr<v1::NodeFacts> MakeFacts(const Config& config, const Identity& identity,
                                        const common::CgroupHost& cgroups, const LimitHost& limits);

}  // namespace muster::worker
