// One stream of PushObjects, without gRPC: objects one after the other, each hashed while it is written.
// Objects of other projects are neither used nor disclosed: their bytes must arrive like any others. One
// chunk at a time is in memory; only the pool of files waits for disks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/code/code_uploads.h"
#include "coordinator/contexts/contexts.h"
#include "coordinator/core/state/input.h"
#include "coordinator/stores/code_store.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {

// One call at a time; any thread.
class CodePush : public std::enable_shared_from_this<CodePush> {
 public:
  using Next = std::function<void(const absl::Status&)>;
  using Totals = std::function<void(absl::StatusOr<v1::PushObjectsResponse>)>;

  CodePush(JobStores& stores, JobCode& job_code, Access& access, Process& process, Caller caller)
      : stores_(stores),
        job_code_(job_code),
        access_(access),
        process_(process),
        caller_(std::move(caller)) {}

  // `next`: OK: it was written. Otherwise the stream ends with this error.
  void Take(v1::ObjectChunk chunk, Next next);
  // The client sends nothing more, or is gone, or was refused. What arrived of an object stays, so that the
  // upload can be continued. Call nothing afterwards.
  void End(Totals totals);

 private:
  struct Current {
    CodeUploads::Object name;
    uint64_t size = 0;
    uint64_t position = 0;  // of the next byte
    // Null: the project has the object already, and its bytes are dropped.
    std::unique_ptr<Blobs::Upload> upload;
  };
  using Chunk = std::shared_ptr<const v1::ObjectChunk>;

  absl::Status Check(const v1::ObjectChunk& chunk);
  absl::Status CheckFirst(const v1::ObjectChunk& chunk);
  // On the pool.
  void Open(Chunk chunk, Next next);
  void CatchUp(Chunk chunk, Next next);
  void Write(const v1::ObjectChunk& chunk, const Next& next);
  absl::Status OpenUpload();
  absl::Status CheckRoom();
  absl::Status Commit();
  // The object's status for the client.
  absl::Status Told(const absl::Status& status) const;
  void ReleaseCurrent();

  JobStores& stores_;
  JobCode& job_code_;
  Access& access_;
  Process& process_;
  const Caller caller_;
  bool has_begun_ = false;
  std::string project_;
  std::optional<Current> current_;
  v1::PushObjectsResponse done_;
};

// What counts against the project's quota: the objects that it has, and those that are arriving or have
// arrived in part, without those that `except` names.
absl::StatusOr<uint64_t> CodeBytesUsed(JobStores& stores, JobCode& job_code,
                                       const std::string& project,
                                       const std::function<bool(const std::string&)>& except);
// RESOURCE_EXHAUSTED (JC1701): `needed` bytes more are too many.
absl::Status CheckCodeQuota(const JobCode& job_code, const std::string& project, uint64_t used,
                            uint64_t needed);
// The same for everything that this caller uploaded, in all projects; `begun`: unfinished uploads, including
// `needed`.
absl::Status CheckGiverQuota(JobCode& job_code, const Caller& caller, uint64_t needed,
                             uint64_t begun);
// For each of these, whether the project has all of it.
absl::StatusOr<std::vector<bool>> CodeIsHere(JobStores& stores, JobCode& job_code, Process& process,
                                             const std::string& project,
                                             const std::vector<CodeObject>& objects);
// INVALID_ARGUMENT (JC1705), or the object.
absl::StatusOr<CodeObject> ReadCodeObject(const std::string& sha256, uint64_t size);

}  // namespace muster::coordinator
