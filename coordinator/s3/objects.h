// Objects in a bucket of S3, or of a store that speaks S3.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/s3/client.h"
#include "coordinator/stores/objects.h"

namespace muster::coordinator::s3 {

class S3Objects final : public Objects {
 public:
  // FAILED_PRECONDITION: libcurl is not installed. Nothing is asked yet.
  static absl::StatusOr<std::unique_ptr<Objects>> Open(ClientOptions options);

  std::string Name() const override { return TextOf(client_->address()); }
  absl::Status Put(const std::string& key, const common::ByteSource& bytes) override;
  absl::Status Fetch(const std::string& key, const Range& range, const Sink& sink) override;
  absl::StatusOr<ObjectInfo> Head(const std::string& key) override;
  absl::StatusOr<Page> List(const std::string& prefix, const std::string& from) override;
  absl::Status Delete(const std::vector<std::string>& keys) override;

  absl::StatusOr<ObjectUpload> BeginUpload(const std::string& key) override;
  absl::StatusOr<ObjectPart> PutPart(const ObjectUpload& upload, int number,
                                     const common::ByteSource& bytes) override;
  bool CanPresign() const override { return true; }
  absl::StatusOr<PresignedUrl> PresignPart(const ObjectUpload& upload, int number, uint64_t size,
                                           std::chrono::seconds life) override;
  absl::StatusOr<std::vector<ObjectPart>> Parts(const ObjectUpload& upload) override;
  absl::Status Complete(const ObjectUpload& upload, const std::vector<ObjectPart>& parts) override;
  absl::Status Abort(const ObjectUpload& upload) override;
  absl::StatusOr<UploadPage> OpenUploads(const std::string& from) override;
  absl::StatusOr<PresignedUrl> PresignGet(const std::string& key,
                                          std::chrono::seconds life) override;

 private:
  explicit S3Objects(std::unique_ptr<Client> client) : client_(std::move(client)) {}
  Fields Encryption() const;
  // The key below the prefix of the address; empty: it is not one of ours.
  std::string OurKey(std::string_view key) const;
  absl::Status HasSize(const std::string& key, uint64_t size);

  const std::unique_ptr<Client> client_;
  // Some stores refuse a put with a condition, instead of ignoring it.
  std::atomic<bool> knows_conditions_ = true;
};

}  // namespace muster::coordinator::s3
