// The directory that `ckpt pull` writes to. File names come from a coordinator and are not trusted:
// every component is checked and opened separately, links are not followed, and only regular files
// are opened.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/files.h"

namespace muster::client {

class PullTarget {
 public:
  // A directory that the user named: links in it belong to the user.
  static absl::StatusOr<PullTarget> At(const std::string& path);
  // JOB/step-N in the working directory. Errors: JC1504 if the job's name is not usable as a
  // directory name.
  static absl::StatusOr<PullTarget> ForJob(const std::string& job_name, int64_t step);

  const std::string& path() const { return path_; }
  // NOT_FOUND, or an error if it is not a regular file.
  absl::StatusOr<common::UniqueFd> OpenExisting(const std::string& file) const;
  // Opens for reading and writing; creates it and its directories if missing.
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
