// Objects as files of a directory that several machines may share. An object appears under its name whole and durable:
// it is written and synced in `.uploads`, linked, and its directories are synced. A name is linked once, so a second put
// of a key is noticed; on a file system without links two at once are not.
//
//   ROOT/KEY                        an object
//   ROOT/.uploads/ID/key            an upload: its key; as old as the upload
//   ROOT/.uploads/ID/part-00001     a part that has arrived whole
//   ROOT/.uploads/ID/.part-… .whole-…   one under way
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coordinator/stores/objects.h"

namespace muster::coordinator {

class ObjectFiles final : public Objects {
 public:
  static constexpr std::string_view kScheme = "file://";

  // The directory of "file:///mnt/shared/muster". INVALID_ARGUMENT: what is wrong with it. Pure.
  static absl::StatusOr<std::string> ParseAddress(std::string_view text);

  // FAILED_PRECONDITION: there is no such directory: it is not made, as a file system may only not be mounted.
  static absl::StatusOr<std::unique_ptr<Objects>> Open(const std::string& directory);

  std::string Name() const override;
  absl::Status Put(const std::string& key, const common::ByteSource& bytes) override;
  absl::Status Fetch(const std::string& key, const Range& range, const Sink& sink) override;
  absl::StatusOr<ObjectInfo> Head(const std::string& key) override;
  absl::StatusOr<Page> List(const std::string& prefix, const std::string& from) override;
  absl::Status Delete(const std::vector<std::string>& keys) override;

  absl::StatusOr<ObjectUpload> BeginUpload(const std::string& key) override;
  absl::StatusOr<ObjectPart> PutPart(const ObjectUpload& upload, int number,
                                     const common::ByteSource& bytes) override;
  bool CanPresign() const override { return false; }
  // UNIMPLEMENTED.
  absl::StatusOr<PresignedUrl> PresignPart(const ObjectUpload& upload, int number, uint64_t size,
                                           std::chrono::seconds life) override;
  absl::StatusOr<std::vector<ObjectPart>> Parts(const ObjectUpload& upload) override;
  absl::Status Complete(const ObjectUpload& upload, const std::vector<ObjectPart>& parts) override;
  absl::Status Abort(const ObjectUpload& upload) override;
  absl::StatusOr<UploadPage> OpenUploads(const std::string& from) override;
  // UNIMPLEMENTED.
  absl::StatusOr<PresignedUrl> PresignGet(const std::string& key,
                                          std::chrono::seconds life) override;

 private:
  ObjectFiles(std::string root, std::string mark)
      : root_(std::move(root)), mark_(std::move(mark)) {}
  // What tells the directory from the mount point below it: made by the first who opens it.
  static absl::StatusOr<std::string> MarkOf(const std::string& directory);
  // UNAVAILABLE: the directory is not the one that was opened, as when its file system was unmounted.
  absl::Status CheckMark() const;
  static std::string NewId();
  std::string PathOf(const std::string& key) const;
  std::string PathOf(const ObjectUpload& upload) const;
  // The upload's directory. NOT_FOUND; INVALID_ARGUMENT if its id cannot be one.
  absl::StatusOr<std::string> DirectoryOf(const ObjectUpload& upload) const;
  absl::StatusOr<ObjectUpload> MakeUpload(const std::string& key, bool is_durable);
  // Gives a synced file the key's name, and makes that durable. ALREADY_EXISTS.
  absl::Status Place(const std::string& file, const std::string& key);

  const std::string root_;
  const std::string mark_;  // what its file .muster-objects has
};

// A status for errno, of a file system that may be another machine's: UNAVAILABLE if that does not answer.
absl::Status SharedErrno(const std::string& what);

}  // namespace muster::coordinator
