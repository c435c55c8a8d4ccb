// This process's rank and world in its job.
//
// Read once from torchrun's environment variables, so that one program runs under Muster, under
// torchrun, with variables set by hand, and alone. Pure values: no thread, no file, no socket.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace muster {

// Returns the value of an environment variable, or nullptr, as std::getenv does.
using EnvironmentLookup = std::function<const char*(const char* name)>;

// Ranks and rendezvous. The default is a single process. Source: the environment of torchrun
// (pytorch elastic/agent/server/local_elastic_agent.py).
struct Topology {
  int rank = 0;              // RANK: 0 <= rank < world_size
  int world_size = 1;        // WORLD_SIZE: processes of the job
  int local_rank = 0;        // LOCAL_RANK: index on this node
  int local_world_size = 1;  // LOCAL_WORLD_SIZE: processes on this node; nodes may differ
  int node_rank = 0;         // GROUP_RANK
  int node_count = 1;        // GROUP_WORLD_SIZE
  std::string master_addr;   // MASTER_ADDR: host of the c10d store; empty when alone
  int master_port = 0;       // MASTER_PORT
  // TORCHELASTIC_USE_AGENT_STORE: the launcher hosts the store and every rank is a client of it;
  // otherwise rank 0 hosts it.
  bool agent_store = false;
  int restart_count = 0;  // TORCHELASTIC_RESTART_COUNT: separates the store keys of attempts

  // Reads the variables above. Without RANK and WORLD_SIZE: a single process. Throws TopologyError
  // if a variable is missing, is not a number or is out of range.
  static Topology from_environment(const EnvironmentLookup& lookup);
  static Topology from_environment();
};

// What a Muster worker sets for its ranks in addition to torchrun's variables; empty without a
// worker. Source: docs/protocol.md.
struct WorkerEnvironment {
  int64_t job = 0;             // MUSTER_JOB_ID
  std::string job_name;        // MUSTER_JOB_NAME
  int64_t attempt = 0;         // MUSTER_ATTEMPT
  std::string socket_path;     // MUSTER_SOCKET: the trainer socket
  std::string checkpoint_dir;  // MUSTER_CHECKPOINT_DIR
  std::string resume_from;     // MUSTER_RESUME_FROM: the last committed checkpoint, read-only

  // Throws TopologyError if a number is malformed.
  static WorkerEnvironment from_environment(const EnvironmentLookup& lookup);
  static WorkerEnvironment from_environment();
};

}  // namespace muster
