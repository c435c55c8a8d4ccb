// The directory that backups of one data directory go to. Files are shared between backups where
// they have not changed; the last whole backup stays whole until the next one is. One thread.
//
//   MANIFEST      of the last whole backup
//   UNFINISHED    while one is made, and after one that was interrupted
//   LOCK          flock: one backup at a time
//   blobs/…       checkpoint files, copied once
//   N/…           all else that backup N copied
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "coordinator/care/manifest.h"

namespace muster::coordinator {

class BackupTarget {
 public:
  // Makes the directory when it is missing. FAILED_PRECONDITION: it lies in the data directory,
  // holds something else, or another backup is writing to it. DATA_LOSS: its MANIFEST is damaged.
  static absl::StatusOr<std::unique_ptr<BackupTarget>> Open(const std::string& directory,
                                                            const std::string& data_dir);
  // Without Finish, what this backup copied is removed but for the checkpoint files, which the next
  // one can use.
  ~BackupTarget();

  const std::string& Root() const { return root_; }
  // Of the last whole backup; nothing: there is none.
  const std::string& Cluster() const { return previous_.cluster; }
  // Of the backup that is being made.
  uint64_t Number() const { return number_; }
  // "7/logs/…": where this backup puts a file that it copies.
  std::string StoredName(const std::string& path) const;
  // The file as the last whole backup has it, if its bytes are still there; else null.
  const SavedFile* Saved(const std::string& path) const;
  // No byte of the file can have been changed since the last whole backup.
  bool IsUnchanged(const std::string& path, uint64_t size, int64_t modified_ns) const;

  // Syncs what was copied, then puts the manifest into place, then removes what it does not name.
  absl::Status Finish(const Manifest& manifest);

 private:
  explicit BackupTarget(std::string root) : root_(std::move(root)) {}
  absl::Status Lock();
  absl::Status ReadPrevious();
  void Prune(const Manifest& manifest) const;
  std::string At(const std::string& name) const { return root_ + "/" + name; }

  const std::string root_;
  common::UniqueFd lock_;
  Manifest previous_;
  std::map<std::string, const SavedFile*> saved_;  // by path, into previous_
  uint64_t number_ = 1;
  bool is_finished_ = false;
};

// The manifest in a backup's directory. NOT_FOUND: there is none. DATA_LOSS with a code.
absl::StatusOr<Manifest> ReadManifest(const std::string& directory);

}  // namespace muster::coordinator
