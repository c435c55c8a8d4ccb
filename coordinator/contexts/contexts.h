// The contexts that calls use: each covers one subject, and a handler's signature names exactly those that the call
// needs. Process has what all work needs: threads, clock, paths. Jobs has what the control loop and the index know
// about jobs, JobStores what jobs have written, JobCode the code they bring along. Gates decide which worker may send
// or fetch what; Access has the identities and the audit; Traffic counts and bounds the calls themselves; Instance is
// this run of the coordinator. All are set once, before the first call. Handlers run on gRPC's threads, never block
// there, and post work that waits for a disk to a pool.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "coordinator/base/rate_limited_log.h"
#include "coordinator/base/work_pool.h"
#include "coordinator/contexts/attached_runs.h"
#include "coordinator/contexts/call_budget.h"
#include "coordinator/contexts/call_counts.h"
#include "coordinator/contexts/denial_counts.h"
#include "coordinator/contexts/diagnoses.h"
#include "coordinator/contexts/planner.h"
#include "coordinator/contexts/project_mirror.h"
#include "coordinator/loop/control_loop.h"
#include "coordinator/store_parts/blobs.h"
#include "coordinator/stores/code_store.h"
#include "coordinator/stores/job_index.h"
#include "coordinator/stores/leading.h"
#include "coordinator/stores/log_store.h"
#include "coordinator/stores/metric_store.h"
#include "coordinator/stores/paths.h"
#include "coordinator/stores/sample_store.h"

namespace muster::coordinator {

class Admission;
class Assessor;
class Audit;
class Cluster;
class CurveCache;
class DirectUploads;
class Directory;
class ExecBroker;
class Lifetime;
class LogUsage;
class Notifier;
class StreamFailures;
struct Gates;    // gates/gates.h
struct JobCode;  // code/job_code.h

struct Jobs {
  ControlLoop& loop;  // the live jobs
  JobIndex& index;    // the finished jobs, and all events
  Assessor& assessor;
  Notifier& notifier;
  ExecBroker& execs;
  AttachedRuns attached = {};
  Diagnoses diagnoses = {};
  Planner plans = {};
  ProjectMirror project_mirror = {};
};

struct JobStores {
  LogStore& logs;
  MetricStore& metrics;
  SampleStore& samples;
  Blobs& blobs;
  DirectUploads* direct;  // null: there is no store that workers reach
  CurveCache& curves;
  LogUsage& log_usage;
  StreamFailures& stream_failures;
  bool signs_for_clients = false;  // --objects-direct
};

struct Access {
  const Admission& admission;
  Directory& directory;
  Audit& audit;
  // Null: a coordinator without identities.
  const Cluster* cluster = nullptr;
  // What to do when a call needs one and there is none.
  std::string no_cluster_fix = {};
  // Closes the connections that were made with certificates with these serials; returns how many. Any thread.
  std::function<uint32_t(const std::vector<std::string>& serials)> cut = nullptr;
  // Likewise the connections of a local account: "uid:1000".
  std::function<uint32_t(const std::string& principal)> cut_local = nullptr;
};

struct Traffic {
  CallCounts calls = {};
  CallBudget budget = {};
  // For nodes with certificates. Each has its share, however many there are.
  CallBudget node_budget{{.all = std::numeric_limits<size_t>::max(),
                          .fix = "a worker has a few streams: look for a foreign program that uses "
                                 "the node's certificate"}};
  // Total size of workers' partially received messages, over all streams.
  std::atomic<size_t> piece_bytes = 0;
  DenialCounts denied = {};
  RateLimitedLog refusals = {};
};

struct Instance {
  Lifetime& lifetime;
  uint64_t epoch = 0;
  int64_t started_ms = 0;
  std::string endpoint = {};
  // The address that serves gRPC over TCP: "0.0.0.0:7700"; empty: none.
  std::string tcp_endpoint = {};
  // HTTP's address, and a link that signs the caller's browser in there and leads to a path; empty: no
  // HTTP.
  std::string http_address = {};
  std::function<absl::StatusOr<std::string>(const Caller& caller, std::string_view path)>
      sign_in_link = nullptr;
  bool is_private = false;
  const Leading* leading = nullptr;  // among several coordinators; null: this one is alone
  // Set before the server stops: from then on a stream ends because of us, not because its client
  // left.
  std::atomic<bool> stopping = false;
  // Of the data directory's file system, measured every few seconds; 0: not yet.
  std::atomic<uint64_t> disk_bytes = 0;
  std::atomic<uint64_t> disk_free_bytes = 0;
};

struct Process {
  const Paths& paths;
  const common::Clock& clock;
  WorkPool& pool;     // short reads from disk, never delayed by long ones:
  WorkPool& reads;    // logs and metrics, piece by piece
  WorkPool& files;    // checkpoint files: uploads, downloads
  WorkPool& objects;  // what waits for the object store alone
  WorkPool& hashes;   // files that people have checked, one at a time
};

}  // namespace muster::coordinator
