// The directory that holds the backups of one data directory. Backups share the files that have not
// changed between them. The last complete backup stays complete until the next one is. One thread.
//
//   MANIFEST      of the last complete backup
//   UNFINISHED    present while a backup is in progress, and after one was interrupted
//   LOCK          flock: one backup at a time
//   blobs/…       checkpoint files, copied once
//   N/…           everything else that backup N copied
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/files.h"
#include "coordinator/care/manifest.h"

namespace muster::coordinator {

class BackupTarget {
 public:
  // Creates the directory if it does not exist. FAILED_PRECONDITION: it lies inside the data
  // directory, contains something else, or another backup is writing to it. DATA_LOSS: its MANIFEST
  // is damaged.
  static absl::StatusOr<std::unique_ptr<BackupTarget>> Open(const std::string& directory,
                                                            const std::string& data_dir);
  // Without Finish, removes what this backup copied, except for the checkpoint files: the next
  // backup can use them.
  ~BackupTarget();

  const std::string& Root() const { return root_; }
  // The cluster id in the last complete backup; empty: there is none.
  const std::string& Cluster() const { return previous_.cluster; }
  // The number of the backup in progress.
  uint64_t Number() const { return number_; }
  // Where this backup stores a file that it copies: "7/logs/…".
  std::string StoredName(const std::string& path) const;
  // The file's entry in the last complete backup if its copy is still there, otherwise null.
  const SavedFile* Saved(const std::string& path) const;
  // Whether the file cannot have changed since the last complete backup.
  bool IsUnchanged(const std::string& path, uint64_t size, int64_t modified_ns) const;

  // Syncs what was copied, writes the manifest, then removes what the manifest does not list.
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

// Reads the manifest in a backup's directory. NOT_FOUND: there is none. DATA_LOSS has a code.
absl::StatusOr<Manifest> ReadManifest(const std::string& directory);

}  // namespace muster::coordinator
