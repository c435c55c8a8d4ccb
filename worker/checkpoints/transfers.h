// Checkpoint transfers: hashing and uploading parts, fetching the checkpoint that an attempt
// resumes from, deleting. Each attempt has separate threads for this, so that a huge or hanging
// transfer delays no other job. Results go to the control loop's mailbox. Logs never wait for any
// of this.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/base/job_threads.h"
#include "worker/base/paths.h"
#include "worker/checkpoints/arriving_files.h"
#include "worker/checkpoints/outputs.h"
#include "worker/checkpoints/peer_server.h"
#include "worker/checkpoints/peer_source.h"
#include "worker/confinement/rank_account.h"
#include "worker/core/decide.h"
#include "worker/links/blob_link.h"
#include "worker/links/route.h"
#include "worker/preparation/object_cache.h"
#include "worker/rendezvous/port_holder.h"

namespace muster::worker {

class Transfers {
 public:
  // `result` is called on transfer threads and must only enqueue.
  // `ports`: on one of them an attempt's files are served to its other nodes.
  Transfers(Paths paths, PortRange ports, JobThreads* threads, std::function<void(Input)> result);
  ~Transfers();

  void SetRoute(const Route& route);
  void Upload(const UploadAction& action);
  void Fetch(const AttemptKey& key, const v1::LaunchAttempt& launch);
  void CancelFetch(const AttemptKey& key);
  // Runs after the work in progress in the lane.
  void DeleteTree(const AttemptKey& key, const std::string& path, Work lane = Work::kDelete);
  // Fetches objects of jobs' code, on any thread that may block.
  FetchObject ObjectFetcher();
  // Makes every transfer end soon; JobThreads waits for them.
  void Shutdown();

 private:
  void UploadNow(const UploadAction& action);
  // The part that is already uploaded, if its record is intact and for this same part.
  std::optional<v1::CheckpointPartReady> Recorded(const UploadAction& action) const;
  absl::StatusOr<v1::CheckpointPartReady> HashAndSend(const UploadAction& action);
  // Files that cannot be taken are not an error: `left_out` names them.
  absl::StatusOr<v1::CheckpointPartReady> SendOutputs(const UploadAction& action,
                                                      std::string* left_out);
  // FAILED_PRECONDITION: this file cannot be read as a whole.
  absl::StatusOr<v1::CheckpointFile> SendOutput(const OutputTree& tree, const UploadAction& action,
                                                const std::string& path);
  // One attempt's fetch.
  struct Fetching {
    const AttemptKey& key;
    const v1::LaunchAttempt& launch;
    const RankAccount& account;
    const std::atomic<bool>& cancelled;
    ArrivingFiles* arriving;  // null: no other node wants any
    PeerSource& peer;
  };
  absl::StatusOr<v1::CheckpointFiles> ResumeFiles(const AttemptKey& key,
                                                  const v1::LaunchAttempt& launch,
                                                  const PeerServer* own,
                                                  const std::atomic<bool>& cancelled);
  absl::Status FetchNow(const AttemptKey& key, const v1::LaunchAttempt& launch,
                        const std::atomic<bool>& cancelled);
  absl::Status FetchAll(const Fetching& fetching,
                        const google::protobuf::RepeatedPtrField<v1::CheckpointFile>& files,
                        const std::string& building);
  absl::Status FetchFile(const Fetching& fetching, const v1::CheckpointFile& file,
                         const std::string& target);
  absl::Status FetchInto(const Fetching& fetching, const Blob& blob, int fd);
  // Null: no other node of the attempt needs any of this node.
  std::shared_ptr<PeerServer> ServeOthers(const AttemptKey& key, const v1::LaunchAttempt& launch,
                                          const std::atomic<bool>& cancelled,
                                          const std::shared_ptr<ArrivingFiles>& arriving);
  void StopServing(const AttemptKey& key);
  // If another attempt on this node has the same file, links it instead of fetching it, or copies it if that
  // attempt may still run.
  bool TakeLocal(const AttemptKey& key, const v1::CheckpointFile& file, const std::string& target,
                 const RankAccount& account, const v1::LaunchAttempt& launch);

  const Paths paths_;
  const PortRange ports_;
  JobThreads* const threads_;
  const std::function<void(Input)> result_;
  BlobLink uploads_client_;
  BlobLink fetch_client_;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::map<AttemptKey, std::shared_ptr<std::atomic<bool>>> fetches_;  // guarded; the cancel flags
  std::map<AttemptKey, std::shared_ptr<PeerServer>> serving_;         // guarded
};

}  // namespace muster::worker
