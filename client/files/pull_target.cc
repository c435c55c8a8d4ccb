#include "client/files/pull_target.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "client/command_line/errors.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/relative_path.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

std::string Last(std::string_view file) { return std::string(file.substr(file.rfind('/') + 1)); }

// `name` is one component. A link there is an error; it is not followed.
absl::StatusOr<common::UniqueFd> Enter(int parent, const std::string& name, bool make) {
  if (make && mkdirat(parent, name.c_str(), 0755) != 0 && errno != EEXIST) {
    return common::ErrnoStatus(StrCat("cannot make ", name));
  }
  common::UniqueFd directory(openat(parent, name.c_str(), kDirectory | O_NOFOLLOW));
  if (!directory.valid()) return common::ErrnoStatus(StrCat("cannot enter ", name));
  return directory;
}

absl::StatusOr<common::UniqueFd> OpenRegular(int parent, const std::string& name, int flags) {
  // Non-blocking: must not wait on a FIFO.
  common::UniqueFd file(
      openat(parent, name.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644));
  if (!file.valid()) return common::ErrnoStatus(StrCat("cannot open ", name));
  struct stat info {};
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(StrCat(name, " is not a regular file"));
  }
  return file;
}

}  // namespace

absl::StatusOr<PullTarget> PullTarget::At(const std::string& path) {
  RETURN_IF_ERROR(common::MakeDirectories(path, 0755));
  common::UniqueFd directory(open(path.c_str(), kDirectory));
  if (!directory.valid()) return common::ErrnoStatus(StrCat("cannot enter ", path));
  return PullTarget(path, std::move(directory));
}

absl::StatusOr<PullTarget> PullTarget::ForJob(const std::string& job_name, int64_t step) {
  if (!common::IsPathName(job_name)) {
    return common::MakeProblem(absl::StatusCode::kDataLoss,
                               {.code = "JC1504",
                                .what = StrCat("the job's name \"", common::Printable(job_name),
                                               "\" is not usable as a directory name"),
                                .fix = "--to DIR"});
  }
  ASSIGN_OR_RETURN(const common::UniqueFd job, Enter(AT_FDCWD, job_name, true));
  const std::string name = StrCat("step-", step);
  ASSIGN_OR_RETURN(common::UniqueFd directory, Enter(job.get(), name, true));
  return PullTarget(StrCat(job_name, "/", name), std::move(directory));
}

absl::StatusOr<common::UniqueFd> PullTarget::Parent(std::string_view file, bool make) const {
  if (!common::StaysInside(file)) {
    return common::MakeProblem(
        absl::StatusCode::kDataLoss,
        {.code = "JC1504",
         .what = StrCat("the file name \"", common::Printable(file), "\" leads outside"),
         .fix = "do not use this checkpoint"});
  }
  common::UniqueFd at(openat(directory_.get(), ".", kDirectory));
  if (!at.valid()) return common::ErrnoStatus(StrCat("cannot enter ", path_));
  for (size_t begin = 0, slash; (slash = file.find('/', begin)) != std::string_view::npos;
       begin = slash + 1) {
    ASSIGN_OR_RETURN(at, Enter(at.get(), std::string(file.substr(begin, slash - begin)), make));
  }
  return at;
}

absl::StatusOr<common::UniqueFd> PullTarget::OpenExisting(const std::string& file) const {
  ASSIGN_OR_RETURN(const common::UniqueFd parent, Parent(file, false));
  return OpenRegular(parent.get(), Last(file), O_RDONLY);
}

absl::StatusOr<common::UniqueFd> PullTarget::Create(const std::string& file) const {
  ASSIGN_OR_RETURN(const common::UniqueFd parent, Parent(file, true));
  return OpenRegular(parent.get(), Last(file), O_RDWR | O_CREAT);
}

absl::Status PullTarget::Rename(const std::string& from, const std::string& to) const {
  ASSIGN_OR_RETURN(const common::UniqueFd parent, Parent(to, false));
  if (renameat(parent.get(), Last(from).c_str(), parent.get(), Last(to).c_str()) == 0) {
    return absl::OkStatus();
  }
  return common::ErrnoStatus(StrCat("cannot finish ", path_, "/", to));
}

void PullTarget::Remove(const std::string& file) const {
  const absl::StatusOr<common::UniqueFd> parent = Parent(file, false);
  if (parent.ok()) unlinkat(parent->get(), Last(file).c_str(), 0);
}

}  // namespace muster::client
