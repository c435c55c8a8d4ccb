// The directory that `ckpt pull` writes to. The names of files come from a coordinator and are not
// trusted: every component is checked and opened by itself, links are not followed, and what is
// opened is a regular file.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"

namespace muster::client {

// "a/b": relative, and no component is empty, "." or "..".
bool IsSafeRelative(std::string_view path);

class PullTarget {
 public:
  // A directory that the user named: links in it are the user's.
  static absl::StatusOr<PullTarget> At(const std::string& path);
  // JOB/step-N below the working directory. Errors: JC1504 when the job's name is none for a
  // directory.
  static absl::StatusOr<PullTarget> ForJob(const std::string& job_name, int64_t step);

  const std::string& path() const { return path_; }
  // NOT_FOUND, or what is not a regular file.
  absl::StatusOr<common::UniqueFd> OpenExisting(const std::string& file) const;
  // For reading and writing; made with its directories when missing.
  absl::StatusOr<common::UniqueFd> Create(const std::string& file) const;
  absl::Status Rename(const std::string& from, const std::string& to) const;
  void Remove(const std::string& file) const;

 private:
  PullTarget(std::string path, common::UniqueFd directory)
      : path_(std::move(path)), directory_(std::move(directory)) {}
  absl::StatusOr<common::UniqueFd> Parent(std::string_view file, bool make) const;

  std::string path_;
  common::UniqueFd directory_;
};

}  // namespace muster::client
