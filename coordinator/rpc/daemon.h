// What every handler may use. Set once by the coordinator before the first call; handlers run on
// gRPC's threads, never block there, and post work that waits for a disk to the pool.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "coordinator/control_loop.h"
#include "coordinator/paths.h"
#include "coordinator/rpc/call_budget.h"
#include "coordinator/rpc/call_counts.h"
#include "coordinator/rpc/denial_counts.h"
#include "coordinator/rpc/plan_desk.h"
#include "coordinator/said_rarely.h"
#include "coordinator/stores/blob_store.h"
#include "coordinator/stores/code_store.h"
#include "coordinator/stores/job_index.h"
#include "coordinator/stores/log_store.h"
#include "coordinator/stores/metric_store.h"
#include "coordinator/stores/sample_store.h"
#include "coordinator/work_pool.h"

namespace muster::coordinator {

class Admission;
class Assessor;
class AttachedRuns;
class Audit;
class Cluster;
class CodeChecks;
class CodeGate;
class CodeUploads;
class CurveShelf;
class Diagnoses;
class Directory;
class ExecBroker;
class JobGate;
class Lifetime;
class LogUsage;
class Notifier;
class ResumeGate;
class SampleGate;
class StreamFailures;

struct Daemon {
  const Paths& paths;
  const common::Clock& clock;
  ControlLoop& loop;
  JobIndex& index;
  LogStore& logs;
  MetricStore& metrics;
  SampleStore& samples;
  BlobStore& blobs;
  CodeStore& code;
  WorkPool& pool;    // short reads from disk, never delayed by long ones:
  WorkPool& reads;   // logs and metrics, piece by piece
  WorkPool& files;   // checkpoint files: uploads, downloads
  WorkPool& hashes;  // files that people have checked, one at a time
  JobGate& gate;
  SampleGate& sample_gate;
  ResumeGate& resume_gate;
  CodeGate& code_gate;
  CodeChecks& code_checks;
  CodeUploads& uploads;
  Lifetime& lifetime;
  AttachedRuns& attached;
  Diagnoses& diagnoses;
  SaidRarely& refusals;
  Assessor& assessor;
  Notifier& notifier;
  CurveShelf& curves;
  const Admission& admission;
  Directory& directory;
  Audit& audit;
  ExecBroker& execs;
  StreamFailures& stream_failures;
  LogUsage& log_usage;

  // Null: a coordinator without identities.
  const Cluster* cluster = nullptr;
  // Ends the connections that were made with certificates of these serials; how many. Any thread.
  std::function<uint32_t(const std::vector<std::string>& serials)> cut;
  // Likewise those of a local account: "uid:1000".
  std::function<uint32_t(const std::string& principal)> cut_local;

  // Of the objects of jobs' code, for each project; 0: no limit.
  uint64_t code_quota_bytes = 0;
  // Likewise of one person, in all projects.
  uint64_t person_code_quota_bytes = 0;
  uint64_t epoch = 0;
  int64_t started_ms = 0;
  std::string endpoint;
  // Of the TCP port that serves gRPC: "0.0.0.0:7700"; empty: none.
  std::string tcp_endpoint;
  // HTTP's address, and a link that signs a browser of the caller in there and leads to a path;
  // empty: no HTTP.
  std::string http_address;
  std::function<absl::StatusOr<std::string>(const Caller& caller, std::string_view path)>
      sign_in_link;
  bool is_private = false;
  // Set before the server stops: from then on a stream ends because of us, not because its client
  // left.
  std::atomic<bool> stopping = false;
  // Total size of workers' partially received messages, over all streams.
  std::atomic<size_t> piece_bytes = 0;
  // Of the data directory's file system, measured every few seconds; 0: not yet.
  std::atomic<uint64_t> disk_bytes = 0;
  std::atomic<uint64_t> disk_free_bytes = 0;
  CallCounts calls;
  CallBudget budget;
  // Of nodes with certificates. Each has its share, however many there are.
  CallBudget node_budget{{.all = std::numeric_limits<size_t>::max(),
                          .fix = "a worker has a few streams: look for a foreign program that uses "
                                 "the node's certificate"}};
  PlanDesk plans;
  DenialCounts denied;
};

}  // namespace muster::coordinator
