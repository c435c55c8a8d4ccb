#include "worker/log_copies.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "common/status.h"
#include "common/strings.h"
#include "common/text.h"

namespace muster::worker {

using common::StrCat;

void LogCopies::Open(const AttemptKey& key, const v1::LaunchAttempt& launch) {
  const std::string& asked = launch.spec().log_dir();
  if (asked.empty()) return;
  const std::string base = asked[0] == '/' ? asked : StrCat(launch.spec().workdir(), "/", asked);
  Copy& copy = attempts_[key];
  // A job that an older coordinator took may have any name.
  const std::string name =
      common::IsPathName(launch.job_name()) ? launch.job_name() : StrCat("job-", key.job);
  copy.directory = StrCat(base, "/", name, "/attempt_", key.attempt);
  copy.first_rank = launch.part().first_rank();
}

void LogCopies::Write(const v1::LogChunk& chunk) {
  const auto found = attempts_.find({chunk.job(), chunk.attempt()});
  if (found == attempts_.end() || found->second.given_up || chunk.data().empty()) return;
  const absl::Status written = WriteTo(found->second, chunk);
  if (written.ok()) return;
  found->second.given_up = true;
  note_(StrCat("the copy of the output in ", found->second.directory,
               " is given up job=", chunk.job(), " attempt=", chunk.attempt(), " reason=\"",
               common::FromAbsl(written.message()), "\""));
}

absl::Status LogCopies::WriteTo(Copy& copy, const v1::LogChunk& chunk) {
  const std::string directory = StrCat(copy.directory, "/", chunk.rank() - copy.first_rank);
  const std::string path =
      StrCat(directory, chunk.stream() == v1::LOG_STREAM_STDERR ? "/stderr.log" : "/stdout.log");
  common::UniqueFd& file = copy.files[path];
  if (!file.valid()) {
    RETURN_IF_ERROR(common::MakeDirectories(directory, 0777));
    file = common::UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    if (!file.valid()) return common::ErrnoStatus(StrCat("cannot open ", path));
  }
  std::string_view left = chunk.data();
  off_t at = static_cast<off_t>(chunk.offset());
  while (!left.empty()) {
    const ssize_t count = pwrite(file.get(), left.data(), left.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return common::ErrnoStatus(StrCat("cannot write ", path));
    left.remove_prefix(static_cast<size_t>(count));
    at += count;
  }
  return absl::OkStatus();
}

}  // namespace muster::worker
