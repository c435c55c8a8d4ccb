// The smallest coordinator that the worker's contract allows, for tests of the real daemon: records
// everything it is told, keeps logs, metrics and blobs in memory, sends what the test tells it to.
// Its memory survives Stop and Start. It may play several coordinators of one cluster, which share this
// memory; one of them leads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "muster/v1/worker_service.pb.h"

namespace muster::worker {

class FakeCoordinator {
 public:
  struct Log {
    std::string bytes;
    bool ended = false;
    uint64_t dropped = 0;
  };
  using LogKey = std::tuple<uint64_t, uint32_t, uint32_t, int>;  // job, attempt, rank, stream

  explicit FakeCoordinator(std::string socket_path);
  ~FakeCoordinator();
  void Start();
  void Stop();
  std::string endpoint() const { return "unix:" + socket_; }
  // One more of its coordinators; port 0 becomes a free one. Returns the address.
  std::string StartHead(const std::string& address);
  void StopHead(const std::string& address);
  // The others answer JC1630 from now on; the one that led must be stopped first.
  void Lead(const std::string& address);

  void Send(muster::v1::CoordinatorMessage message);
  // Waits until `done` holds (called with the lock held), at most 20 s. False: it never did.
  bool Wait(const std::function<bool()>& done);

  // Under Wait's lock, or when nothing is running.
  std::map<std::pair<uint64_t, uint32_t>, muster::v1::AttemptStatus> statuses;
  std::vector<muster::v1::Register> registrations;
  std::vector<std::string> registered_at;  // the address of each
  std::vector<muster::v1::CheckpointPartReady> parts;
  std::map<LogKey, Log> logs;
  std::vector<muster::v1::MetricPoint> points;
  std::map<std::string, uint64_t> metric_seqs;  // "rank source"
  std::map<std::string, std::string> blobs;
  muster::v1::CheckpointFiles resume_files;   // answers ListResumeFiles
  muster::v1::ListResumeFilesRequest listed;  // the last one
  std::vector<std::string> complaints;        // protocol violations of a worker
  uint64_t heartbeats = 0;
  int cleared = 0;  // how many times a worker sent it
  size_t blob_bytes_received = 0;
  bool refuse_blobs = false;
  uint64_t epoch = 1;
  std::string leader;                        // empty: each leads
  std::vector<std::string> heads;            // told to workers
  std::map<std::string, int> asked_in_vain;  // by address

  struct Service;  // keeps gRPC out of this header

 private:
  const std::string socket_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::unique_ptr<Service>> services_;  // by address
};

}  // namespace muster::worker
