// The outputs of an attempt: the regular files that JobSpec.outputs names, below the attempt's working
// directory. All of it belongs to the job, which may replace any part by a link or a FIFO while it is read:
// everything is opened as the ranks' account, relative to a directory that is open, and no link below the
// working directory is followed. Blocks.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/files.h"
#include "muster/v1/job.pb.h"
#include "worker/base/paths.h"
#include "worker/confinement/rank_account.h"

namespace muster::worker {

inline constexpr int kOutputsDepthMax =
    64;  // directories below one another; each holds a descriptor

// Counts the entries that were left out, for one sentence.
class LeftOut {
 public:
  void Add(std::string_view path, std::string_view why);
  // "not taken: a/link (a symbolic link), b (a socket) and 12 more"; empty: nothing was left out.
  std::string Text() const;

 private:
  static constexpr size_t kNamedMax = 8;
  static constexpr size_t kNameBytesMax = 200;
  std::string named_;
  size_t count_ = 0;
};

class OutputTree {
 public:
  // The attempt's working directory. Errors: it is not there, cannot be entered, or leads into the
  // worker's own files.
  static absl::StatusOr<OutputTree> Open(const Paths& paths, const AttemptKey& key,
                                         const v1::JobSpec& spec, RankAccount account);

  // The regular files that the outputs name, relative to the working directory, sorted. Everything
  // else is left out. INVALID_ARGUMENT: more than one node may send, or than the coordinator keeps for
  // a job (`quota_bytes`; 0: it has no quota).
  absl::StatusOr<std::vector<std::string>> Find(
      const google::protobuf::RepeatedPtrField<std::string>& outputs, uint64_t quota_bytes,
      LeftOut* left_out) const;
  // Opens one of them for reading. Error messages are for people: "a symbolic link".
  absl::StatusOr<common::UniqueFd> OpenFile(const std::string& path) const;

 private:
  struct Search;
  OutputTree(common::UniqueFd root, RankAccount account, dev_t state_device, ino_t state_inode)
      : root_(std::move(root)),
        account_(std::move(account)),
        state_device_(state_device),
        state_inode_(state_inode) {}
  absl::Status Take(int parent, const std::string& name, const std::string& path, int depth,
                    Search* search) const;
  absl::Status TakeDirectory(common::UniqueFd directory, const std::string& path, int depth,
                             Search* search) const;

  common::UniqueFd root_;
  RankAccount account_;
  dev_t state_device_;  // of the worker's state directory, which no job's output contains
  ino_t state_inode_;
};

}  // namespace muster::worker
