// What the coordinator does with checkpoint files and objects of jobs' code: their bytes arrive in an
// UploadArea, become blobs of the engine's BlobStore once they are whole, durable and match the hash that
// names them, and stay as long as a checkpoint or a job may be about to refer to them.
//
// Any thread; may be slow or remote: called on the work pools' threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/store_parts/disk_gate.h"
#include "coordinator/store_parts/file_age.h"
#include "coordinator/store_parts/upload_area.h"
#include "coordinator/store_parts/upload_proofs.h"
#include "coordinator/stores/blob_promises.h"
#include "coordinator/stores/blob_store.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

class Blobs {
 public:
  using Upload = UploadArea::Upload;
  using OpenedUpload = UploadArea::OpenedUpload;
  using Partial = UploadArea::Partial;

  // `paths`: where uploads arrive. `gate`: may be null.
  static absl::StatusOr<std::unique_ptr<Blobs>> Open(std::shared_ptr<BlobStore> store,
                                                     const Paths& paths,
                                                     const DiskGate* gate = nullptr);

  // Whether the blob is here with this size for this job (BlobStore::SizeFor; 0: none); if so, it is not removed during the
  // next minutes. INVALID_ARGUMENT: not a hash, or more bytes than a file may have.
  absl::StatusOr<bool> Keep(const std::string& sha256, uint64_t size, uint64_t job = 0);
  // It is not removed during the next minutes, if it comes to be.
  void Promise(const std::string& sha256) { promises_.Promise(sha256); }

  // See UploadArea.
  absl::StatusOr<std::unique_ptr<Upload>> OpenUpload(const OpenedUpload& upload) {
    return uploads_.Open(upload);
  }
  uint64_t Arrived(const std::string& owner, const std::string& sha256) const {
    return uploads_.Arrived(owner, sha256);
  }
  std::vector<Partial> Partials(const std::string& owner) const { return uploads_.Partials(owner); }
  void RemovePartial(const std::string& owner, const std::string& sha256) {
    uploads_.Remove(owner, sha256);
  }

  // The presence of a blob does not prove that an owner has it: many users see its hash. Remembers durably
  // that this owner has shown all its bytes, for kUnusedKept after the last question.
  absl::Status Prove(const std::string& owner, const std::string& sha256) {
    return proofs_.Add(owner, sha256);
  }
  absl::StatusOr<bool> HasProven(const std::string& owner, const std::string& sha256) const {
    return proofs_.Has(owner, sha256);
  }
  // See BlobStore: its bytes are the job's own.
  absl::StatusOr<bool> IsSentBy(uint64_t job, const std::string& sha256) const {
    return store_->IsSentBy(job, sha256);
  }
  absl::Status ForgetJob(uint64_t job) { return store_->ForgetJob(job); }

  // See BlobStore.
  absl::StatusOr<std::string> Read(const std::string& sha256, uint64_t offset, size_t max,
                                   uint64_t job = 0) const {
    return store_->ReadFor(job, sha256, offset, max);
  }
  absl::StatusOr<uint64_t> Size(const std::string& sha256, uint64_t job = 0) const {
    return store_->SizeFor(job, sha256);
  }
  // Reads all of it. OK: it matches its name. NOT_FOUND, DATA_LOSS; one of shortage.h: no verdict.
  absl::Status Verify(const std::string& sha256, uint64_t job = 0) const;

  // Makes a blob of bytes, which is not removed during the next minutes. Durable when it returns; returns its name.
  absl::StatusOr<std::string> Add(std::string_view bytes);

  // Deletes it unless an upload was promised or finished recently (a record may be about to refer to
  // it). True: it is gone.
  bool RemoveUnlessPromised(const std::string& sha256);
  // Blobs older than kUnusedKept, for the caller to check against what is referred to; deletes
  // stale uploads.
  std::vector<std::string> OldBlobs();

 private:
  Blobs(std::shared_ptr<BlobStore> store, const Paths& paths, const DiskGate* gate);

  const Paths paths_;
  const FileAge age_;
  const std::shared_ptr<BlobStore> store_;
  BlobPromises promises_;
  UploadArea uploads_;
  const UploadProofs proofs_;
};

// Whether the blob is here and this owner has shown its bytes; if so, it is not removed during the
// next minutes. A blob that the owner has not shown is not looked up: neither the answer nor its
// timing tells whether others have it. No owner (""): no proof is required of callers that cannot be
// told apart. INVALID_ARGUMENT, as with Keep.
// `job`: the owner's; what its own workers sent needs no other proof.
absl::StatusOr<bool> KeepProven(Blobs& blobs, const std::string& owner, uint64_t job,
                                const std::string& sha256, uint64_t size);

}  // namespace muster::coordinator
