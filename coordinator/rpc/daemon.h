// What every handler may use. Set once by the coordinator before the first call; handlers run on
// gRPC's threads, never block there, and post what waits for a disk to the pool.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "common/clock.h"
#include "coordinator/control_loop.h"
#include "coordinator/paths.h"
#include "coordinator/said_rarely.h"
#include "coordinator/stores/blob_store.h"
#include "coordinator/stores/job_index.h"
#include "coordinator/stores/log_store.h"
#include "coordinator/stores/metric_store.h"
#include "coordinator/work_pool.h"

namespace muster::coordinator {

class AttachedRuns;
class Diagnoses;
class JobGate;
class Lifetime;

struct Daemon {
  const Paths& paths;
  const common::Clock& clock;
  ControlLoop& loop;
  JobIndex& index;
  LogStore& logs;
  MetricStore& metrics;
  BlobStore& blobs;
  WorkPool& pool;   // short looks at a disk; what may take long never holds these up:
  WorkPool& reads;  // logs and metrics, piece by piece
  WorkPool& files;  // checkpoint files: uploads, downloads, hashes
  JobGate& gate;
  Lifetime& lifetime;
  AttachedRuns& attached;
  Diagnoses& diagnoses;
  SaidRarely& refusals;

  uint64_t epoch = 0;
  int64_t started_ms = 0;
  std::string endpoint;
  bool is_private = false;
  // Set before the server goes: a stream that ends now ends because of us, not because its client
  // left.
  std::atomic<bool> stopping = false;
  // Of workers' messages that came in pieces and are not whole yet, all streams together.
  std::atomic<size_t> piece_bytes = 0;
};

}  // namespace muster::coordinator
