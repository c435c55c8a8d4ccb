// The I/O thread: handles logs, metrics, the trainers' sockets, and the results of scans of event
// files and checkpoint directories, for all attempts of this node. Only this thread uses these
// objects; it communicates with the control loop by posting. It decides nothing about an attempt
// and opens nothing in a job's directories: the job's own threads do that.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/files/files.h"
#include "common/kernel/shim_protocol.h"
#include "worker/base/job_threads.h"
#include "worker/base/mailbox.h"
#include "worker/base/paths.h"
#include "worker/core/decide.h"
#include "worker/events/attempt_scanner.h"
#include "worker/inspection/look_schedule.h"
#include "worker/links/bulk_link.h"
#include "worker/links/route.h"
#include "worker/output/log_copies.h"
#include "worker/output/log_forwarder.h"
#include "worker/output/metric_forwarder.h"
#include "worker/output/trainer_socket.h"
#include "worker/sampling/sample_forwarder.h"

namespace muster::worker {

class IoThread {
 public:
  // Called on the I/O thread; they only enqueue.
  struct Callbacks {
    std::function<void(Input)> input;
    std::function<void(const AttemptKey&, uint32_t rank, common::Stream, uint64_t offset,
                       uint64_t index_records)>
        trim;
    std::function<void(const std::string&)> note;
  };

  IoThread(Paths paths, LogForwarder::Source source, JobThreads* threads, Callbacks callbacks,
           uint64_t jitter_seed);
  ~IoThread();

  // Everything below: any thread; takes effect in order.
  // Starts handling an attempt, before its ranks start. `listener` may be invalid (no trainer
  // socket).
  void Open(const AttemptKey& key, const v1::LaunchAttempt& launch, common::UniqueFd listener,
            RankPass pass = {});
  void SetBulkRoute(const Route& route);
  // `start_ticks`: of the process, since boot; 0: it has ended, or that is not known.
  void RankStarted(const AttemptKey& key, uint32_t rank, pid_t pid, uint64_t start_ticks);
  void SpoolGrew(const AttemptKey& key);
  void StreamClosed(const AttemptKey& key, uint32_t rank, common::Stream stream, uint64_t end);
  // Nothing of the attempt is alive: runs final scans, for a bounded time, then calls
  // FinalScanDone, and OutputDrained once everything is delivered.
  void Ended(const AttemptKey& key);
  void Remove(const AttemptKey& key);
  void Broadcast(const AttemptKey& key, std::string line);
  // Asks the ranks what they are doing, and inspects from outside those that do not answer.
  void Diagnose(const AttemptKey& key, uint64_t number, std::string reason);
  uint64_t spool_bytes() const { return spool_bytes_; }
  void Shutdown();

 private:
  struct Watched {
    std::shared_ptr<AttemptScanner> scanner;  // used by the running scan
    std::vector<TailRoot> roots;              // for its event files
    std::set<AttemptKey> rivals;              // others that may write there
    std::set<int64_t> pids;                   // of its ranks
    ScanOrder order;                          // for the next scan
    bool looking = false;
    bool look_again = false;  // as soon as the current scan is done
    uint32_t ranks = 0;
    int64_t diagnosed_ms = 0;
    uint32_t diagnoses = 0;                // in the second that started then
    std::map<uint32_t, uint64_t> dropped;  // by rank, as reported by the trainer
    std::map<uint32_t, std::pair<int64_t, uint64_t>>
        progress;  // by rank: step, total; not yet forwarded
    bool ended = false;
    int64_t look_until_ms = 0;  // set once it has ended
    bool closed = false;        // the final scan is over
    bool logs_drained = false;
    bool metrics_drained = false;
  };

  void Run();
  void Turn();
  void OpenSamples(const AttemptKey& key, const v1::LaunchAttempt& launch);
  void OpenNow(const AttemptKey& key, const v1::LaunchAttempt& launch, common::UniqueFd listener,
               RankPass pass);
  void EndNow(const AttemptKey& key);
  std::shared_ptr<AttemptScanner> MakeScanner(const AttemptKey& key,
                                              const v1::LaunchAttempt& launch);
  void FindRivals(const AttemptKey& key, Watched& watched);
  void CrowdRivals(const Watched& watched);
  void OnTime(int64_t now_ms);
  void Look(const AttemptKey& key, Watched& watched);
  void OnLooked(const AttemptKey& key, Findings findings);
  void TakeBatches(const AttemptKey& key, Watched& watched, Findings& findings);
  void CloseNow(const AttemptKey& key, Watched& watched);
  void OnDiagnosis(const AttemptKey& key, uint32_t rank, uint64_t number, std::string record);
  // A step that a rank named, to its trainer socket or in an event file.
  void NoteStep(const AttemptKey& key, uint32_t rank, const v1::MetricBatch& batch);
  void StartLook(const AttemptKey& key, const LookTarget& target);
  void OnLookedAt(const AttemptKey& key, uint32_t rank, const std::string& record);
  void PassProgress(const AttemptKey& key, Watched& watched);
  void MaybeDrained(const AttemptKey& key);
  TrainerSocket::Callbacks SocketCallbacks();
  Watched* Find(const AttemptKey& key);

  const Paths paths_;
  const Callbacks callbacks_;
  JobThreads* const threads_;
  Mailbox mailbox_;
  BulkLink bulk_;
  LogCopies copies_;
  LogForwarder logs_;
  MetricForwarder metrics_;
  SampleForwarder samples_;
  TrainerSocket trainers_;
  LookSchedule outside_;
  std::map<AttemptKey, Watched> attempts_;
  int64_t next_scan_ms_ = 0;
  int64_t next_count_ms_ = 0;
  bool running_ = true;
  std::atomic<uint64_t> spool_bytes_ = 0;
  std::thread thread_;  // last
};

}  // namespace muster::worker
