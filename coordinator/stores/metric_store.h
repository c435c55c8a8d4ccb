// Training metrics: batches of points, each kept exactly once by (job, attempt, rank, source, seq).
// A batch is acknowledged when it is durable; a store that has no room for now keeps its senders
// waiting and never drops what it took.
//
// Append, Watch and Decorate: any thread, never block. The rest may be slow or remote: on the work
// pools' threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/stores/job_watchers.h"
#include "muster/v1/job_service.pb.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

// The sender's end. Called on the store's threads; must only enqueue.
class MetricUploader {
 public:
  virtual ~MetricUploader() = default;
  // This many bytes of batches left the queue: more may be read.
  virtual void Consumed(size_t bytes) = 0;
  virtual void Acknowledge(const v1::MetricAck& ack) = 0;
  // Some of what was not acknowledged is not kept: it must be sent again, through another Uploader.
  virtual void SendAgain() = 0;
};

// A job's stored batches one by one: attempt by attempt, and within each in order of arrival. One
// thread at a time.
class MetricReader {
 public:
  virtual ~MetricReader() = default;
  // False: everything that was stored has been handed over. Called again, it looks for more, in each
  // attempt from where it stopped. UNAVAILABLE: ask again later.
  virtual absl::StatusOr<bool> Next(v1::MetricBatch& batch) = 0;
  // How many attempts have stored batches. Before the first Next: 0.
  virtual size_t Attempts() const = 0;
  // Of batches that were stored and can no longer be read; they were skipped.
  virtual uint64_t DamagedBytes() const = 0;
  // Frees what was read ahead: Next will not be called for a while.
  virtual void Forget() = 0;
};

class MetricStore {
 public:
  virtual ~MetricStore() = default;
  // As in LogStore.
  virtual void Stop() = 0;

  // A repeated batch changes nothing and is acknowledged. Batches of a removed job, and those that
  // cannot follow what is stored (upload_checks.h), are acknowledged as refused. If `encoded` is set, it
  // has the other fields once more, in the form to be stored. The caller bounds what it has in flight by
  // Consumed, which is told the size that the batch had here.
  virtual void Append(v1::MetricBatch batch, std::shared_ptr<MetricUploader> uploader) = 0;
  // Told of each batch once it can be read.
  using Watcher = JobWatchers<const v1::MetricBatch&>::Watcher;
  virtual WatchToken Watch(uint64_t job, Watcher watcher) = 0;
  // Step and loss of the newest points, if any of the job's are in memory.
  virtual void Decorate(v1::JobSummary& summary) = 0;
  // The same, including points that a restart forgot. A finished job's row may lack these, because points
  // arrive after its end, too.
  virtual void DecorateFinished(v1::JobSummary& summary) = 0;
  // All batches that are stored. The store outlives the reader.
  virtual std::unique_ptr<MetricReader> Read(uint64_t job) const = 0;
  // This metric represents the run instead of its loss; empty: its loss. Call it before the first batch;
  // any thread.
  virtual void Choose(uint64_t job, const std::string& metric) = 0;
  // Whether the job has as much as one job may keep: later points only reach Decorate and watchers.
  virtual bool IsFull(uint64_t job) = 0;
  // Reads into memory what a restart forgot of a live job.
  virtual void Warm(uint64_t job) = 0;
  // Deletes the job's metrics; later batches of it are refused.
  virtual void Remove(uint64_t job) = 0;
  // As in LogStore.
  virtual std::vector<uint64_t> Jobs() const = 0;
};

}  // namespace muster::coordinator
