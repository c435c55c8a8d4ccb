#include "worker/output/log_copies.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string_view>
#include <utility>

#include "common/base/clock.h"
#include "common/base/lru_map.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "worker/confinement/rank_account.h"

namespace muster::worker {
namespace {

using common::StrCat;

// limit: logs: unwritten output for `--log-dir` of an attempt; its streams wait
constexpr size_t kWaitingBytesMax = 4 << 20;  // per attempt
// limit: logs: without progress of that copy; it is abandoned
constexpr int64_t kStuckMs = 10'000;
constexpr size_t kOpenFilesMax = 8;  // per attempt
constexpr int kCopyDescriptorWaitMs = 50;
constexpr int kDescriptorWaitsMax = 100;

}  // namespace

class LogCopies::Files {
 public:
  Files(std::string directory, uint32_t first_rank, std::string account_path)
      : directory_(std::move(directory)),
        first_rank_(first_rank),
        account_path_(std::move(account_path)) {}

  absl::Status Write(const v1::LogChunk& chunk) {
    const ActAs acting(ReadAccount(account_path_));
    const std::string directory = StrCat(directory_, "/", chunk.rank() - first_rank_);
    const std::string path =
        StrCat(directory, chunk.stream() == v1::LOG_STREAM_STDERR ? "/stderr.log" : "/stdout.log");
    ASSIGN_OR_RETURN(const int file, Open(directory, path));
    std::string_view left = chunk.data();
    off_t at = static_cast<off_t>(chunk.offset());
    while (!left.empty()) {
      const ssize_t count = pwrite(file, left.data(), left.size(), at);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return common::ErrnoStatus(StrCat("cannot write ", path));
      left.remove_prefix(static_cast<size_t>(count));
      at += count;
    }
    return absl::OkStatus();
  }
  std::atomic<bool> given_up = false;

 private:
  absl::StatusOr<int> Open(const std::string& directory, const std::string& path) {
    if (const common::UniqueFd* known = files_.Find(path); known != nullptr) return known->get();
    RETURN_IF_ERROR(common::MakeDirectories(directory, 0777));
    absl::StatusOr<common::UniqueFd> file = common::OpenRegular(path, O_WRONLY | O_CREAT, 0666);
    for (int i = 0; absl::IsUnavailable(file.status()) && i < kDescriptorWaitsMax; ++i) {
      poll(nullptr, 0, kCopyDescriptorWaitMs);  // this thread belongs to the attempt
      file = common::OpenRegular(path, O_WRONLY | O_CREAT, 0666);
    }
    RETURN_IF_ERROR(file.status());
    return files_.Put(path, *std::move(file)).get();
  }

  const std::string directory_;
  const uint32_t first_rank_;
  const std::string account_path_;
  common::LruMap<std::string, common::UniqueFd> files_{kOpenFilesMax};  // by path
};

void LogCopies::Open(const AttemptKey& key, const v1::LaunchAttempt& launch) {
  const std::string& asked = launch.spec().log_dir();
  if (asked.empty()) return;
  const std::string base = asked[0] == '/' ? asked : StrCat(launch.spec().workdir(), "/", asked);
  Copy& copy = attempts_[key];
  // A job accepted by an older coordinator may have any name.
  const std::string name =
      common::IsPathName(launch.job_name()) ? launch.job_name() : StrCat("job-", key.job);
  copy.directory = StrCat(base, "/", name, "/attempt_", key.attempt);
  copy.files =
      std::make_shared<Files>(copy.directory, launch.part().first_rank(), paths_.Account(key));
}

bool LogCopies::KeepsUp(const AttemptKey& key) const {
  const auto found = attempts_.find(key);
  return found == attempts_.end() || found->second.given_up ||
         found->second.waiting_bytes < kWaitingBytesMax;
}

void LogCopies::Write(const v1::LogChunk& chunk, int64_t now_ms) {
  const AttemptKey key{chunk.job(), chunk.attempt()};
  const auto found = attempts_.find(key);
  if (found == attempts_.end() || found->second.given_up || chunk.data().empty()) return;
  Copy& copy = found->second;
  if (copy.waiting_bytes == 0) copy.progress_ms = now_ms;
  copy.waiting_bytes += chunk.data().size();
  threads_->Post(key, Work::kCopy, [this, key, files = copy.files, chunk] {
    const absl::Status written = files->given_up ? absl::OkStatus() : files->Write(chunk);
    callbacks_.in_loop(
        [this, key, bytes = chunk.data().size(), written] { OnWritten(key, bytes, written); });
  });
}

void LogCopies::OnWritten(const AttemptKey& key, size_t bytes, const absl::Status& written) {
  const auto found = attempts_.find(key);
  if (found == attempts_.end() || found->second.given_up) return;
  Copy& copy = found->second;
  copy.waiting_bytes -= bytes;
  copy.progress_ms = common::MonotonicMs();
  if (!written.ok()) GiveUp(key, copy, std::string(written.message()));
}

void LogCopies::OnTime(int64_t now_ms) {
  for (auto& [key, copy] : attempts_) {
    if (copy.given_up || copy.waiting_bytes == 0 || now_ms - copy.progress_ms < kStuckMs) continue;
    GiveUp(key, copy,
           StrCat("nothing could be written for ", kStuckMs / 1000,
                  " s; fix: check that file system"));
  }
}

void LogCopies::GiveUp(const AttemptKey& key, Copy& copy, const std::string& reason) {
  copy.given_up = true;
  copy.files->given_up = true;
  callbacks_.note(StrCat("the copy of the output in ", copy.directory, " was abandoned job=",
                         key.job, " attempt=", key.attempt, " reason=\"", reason, "\""));
}

}  // namespace muster::worker
