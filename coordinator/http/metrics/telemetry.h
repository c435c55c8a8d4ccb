// What /metrics reports: the cluster's state, read in one step on the control loop's thread, and the rest,
// read on a pool's. The number of series is bounded: by kinds and states, and for jobs by
// kJobSeriesMax.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/core/state/state.h"
#include "coordinator/http/metrics/exposition.h"
#include "coordinator/http/server/message.h"
#include "coordinator/http/server/server.h"
#include "coordinator/stores/leading.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {
struct Daemon;
}

namespace muster::coordinator::http {

// Running jobs with their own series, the newest ones.
// limit: HTTP: jobs with series in `/metrics`; others are counted
inline constexpr size_t kJobSeriesMax = 200;

struct ClusterFacts {
  std::map<std::string, uint64_t> jobs;   // live ones by state
  std::map<std::string, uint64_t> nodes;  // by state
  struct Devices {
    uint64_t total = 0;
    uint64_t used = 0;
  };
  std::map<std::string, Devices> devices;  // by kind; of nodes in service
  uint64_t held = 0;
  uint64_t waiting = 0;
  double oldest_waiting_s = 0;
  uint64_t draining = 0;
  uint64_t connected = 0;
  bool is_alarmed = false;
  uint64_t job_numbers = 0;
  uint64_t events = 0;
  struct Job {
    v1::JobSummary summary;
    double running_s = 0;
  };
  std::vector<Job> running;
  uint64_t left_out = 0;
};

struct ProcessFacts {
  double cpu_s = 0;
  uint64_t resident_bytes = 0;
  uint64_t open_fds = 0;
  uint64_t max_fds = 0;
  uint64_t threads = 0;
};

// Facts that only the HTTP server and the coordinator around it know.
struct OwnFacts {
  Server::Counts http;
  std::map<unsigned, uint64_t> responses;  // by HTTP status
  uint64_t journal_pending_bytes = 0;
};

// Of one coordinator among several.
struct HeadFacts {
  bool leads = false;
  std::optional<uint64_t> position;  // nothing: etcd has not answered yet
};

// What a coordinator that stands by knows.
struct StandbyFacts {
  HeadFacts head;
  Server::Counts http;
  std::map<unsigned, uint64_t> responses;  // by HTTP status
  int64_t started_ms = 0;
};

// Pure. `name`: of the coordinator.
HeadFacts FactsOfHead(const HeadsView& view, std::string_view name, bool leads);
// Pure.
ClusterFacts FactsOfCluster(const ClusterState& state, Now now);
// Of this process, from /proc.
ProcessFacts ReadProcess();

Response StandbyMetrics(const StandbyFacts& facts, Exposition::Format format);
// Answers a scrape, even while the disk is full.
void AnswerMetrics(Daemon& daemon, OwnFacts own, Exposition::Format format, Respond respond);

}  // namespace muster::coordinator::http
