// Reads this process's rank and world from the environment. Pure except for std::getenv.
#include "muster/base/topology.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>

#include "muster/base/errors.h"

namespace muster {
namespace {

std::string text_of(const EnvironmentLookup& lookup, const char* name) {
  const char* value = lookup(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::optional<int64_t> number_of(const EnvironmentLookup& lookup, const char* name, int64_t least,
                                 int64_t greatest) {
  const std::string text = text_of(lookup, name);
  if (text.empty()) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least ||
      value > greatest) {
    throw TopologyError(std::string(name) + "='" + text + "' is not a whole number from " +
                        std::to_string(least) + " to " + std::to_string(greatest) +
                        ": start the program with jobctl run or torchrun, or correct the variable");
  }
  return value;
}

bool flag_of(const EnvironmentLookup& lookup, const char* name) {
  const std::string text = text_of(lookup, name);
  return text == "1" || strcasecmp(text.c_str(), "true") == 0;
}

const char* from_process(const char* name) { return std::getenv(name); }

// Errors name both variables.
void require_below(const char* index_name, int64_t index, const char* count_name, int64_t count) {
  if (index < count) return;
  throw TopologyError(std::string(index_name) + "=" + std::to_string(index) +
                      " must be smaller than " + count_name + "=" + std::to_string(count));
}

void read_ranks(const EnvironmentLookup& lookup, Topology& topology) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  const auto rank = number_of(lookup, "RANK", 0, kMost);
  const auto world_size = number_of(lookup, "WORLD_SIZE", 1, kMost);
  if (rank.has_value() != world_size.has_value()) {
    throw TopologyError(
        std::string(rank ? "RANK is set but WORLD_SIZE" : "WORLD_SIZE is set but RANK") +
        " is not: set both, or neither to run as a single process");
  }
  if (!rank) return;
  require_below("RANK", *rank, "WORLD_SIZE", *world_size);
  topology.rank = static_cast<int>(*rank);
  topology.world_size = static_cast<int>(*world_size);

  const auto local_rank = number_of(lookup, "LOCAL_RANK", 0, kMost);
  const auto local_world_size = number_of(lookup, "LOCAL_WORLD_SIZE", 1, *world_size);
  const auto node_rank = number_of(lookup, "GROUP_RANK", 0, kMost);
  const auto node_count = number_of(lookup, "GROUP_WORLD_SIZE", 1, *world_size);
  // People who set variables by hand often set only RANK and WORLD_SIZE: all ranks are then assumed
  // to be on this node, which only affects checkpoint parts and the choice of device.
  topology.local_rank = static_cast<int>(local_rank.value_or(*rank));
  topology.local_world_size = static_cast<int>(local_world_size.value_or(*world_size));
  topology.node_rank = static_cast<int>(node_rank.value_or(0));
  topology.node_count = static_cast<int>(node_count.value_or(topology.node_rank + 1));
  require_below("LOCAL_RANK", topology.local_rank, "LOCAL_WORLD_SIZE", topology.local_world_size);
  require_below("GROUP_RANK", topology.node_rank, "GROUP_WORLD_SIZE", topology.node_count);
}

}  // namespace

Topology Topology::from_environment(const EnvironmentLookup& lookup) {
  Topology topology;
  read_ranks(lookup, topology);
  topology.agent_store = flag_of(lookup, "TORCHELASTIC_USE_AGENT_STORE");
  topology.restart_count =
      static_cast<int>(number_of(lookup, "TORCHELASTIC_RESTART_COUNT", 0, 1 << 30).value_or(0));
  topology.master_addr = text_of(lookup, "MASTER_ADDR");
  topology.master_port = static_cast<int>(number_of(lookup, "MASTER_PORT", 1, 65535).value_or(0));
  if (topology.world_size > 1 && (topology.master_addr.empty() || topology.master_port == 0)) {
    throw TopologyError("WORLD_SIZE=" + std::to_string(topology.world_size) +
                        " needs MASTER_ADDR and MASTER_PORT: the host and port of rank 0's store");
  }
  return topology;
}

Topology Topology::from_environment() { return from_environment(from_process); }

WorkerEnvironment WorkerEnvironment::from_environment(const EnvironmentLookup& lookup) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  WorkerEnvironment worker;
  worker.job = number_of(lookup, "MUSTER_JOB_ID", 0, kMost).value_or(0);
  worker.job_name = text_of(lookup, "MUSTER_JOB_NAME");
  worker.attempt = number_of(lookup, "MUSTER_ATTEMPT", 0, kMost).value_or(0);
  worker.socket_path = text_of(lookup, "MUSTER_SOCKET");
  worker.checkpoint_dir = text_of(lookup, "MUSTER_CHECKPOINT_DIR");
  worker.resume_from = text_of(lookup, "MUSTER_RESUME_FROM");
  return worker;
}

WorkerEnvironment WorkerEnvironment::from_environment() { return from_environment(from_process); }

}  // namespace muster
