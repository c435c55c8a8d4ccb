#include "worker/checkpoints/arriving_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

namespace muster::worker {

void ArrivingFiles::Begin(const std::string& sha256, uint64_t size, int fd) {
  const auto copy = std::make_shared<const common::UniqueFd>(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  std::lock_guard lock(mutex_);
  const bool is_kept = copy->valid() && open_ < kFilesMax;
  // The same bytes may stand in several files.
  const bool is_new =
      files_
          .try_emplace(sha256,
                       File{.fd = is_kept ? copy : nullptr, .size = size, .has_failed = !is_kept})
          .second;
  if (is_new && is_kept) ++open_;
  changed_.notify_all();
}

void ArrivingFiles::Restart(const std::string& sha256) {
  std::lock_guard lock(mutex_);
  if (const auto found = files_.find(sha256); found != files_.end()) found->second.there = 0;
}

void ArrivingFiles::Advance(const std::string& sha256, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  const auto found = files_.find(sha256);
  if (found == files_.end() || found->second.there >= bytes) return;
  found->second.there = std::min(bytes, found->second.size);
  changed_.notify_all();
}

void ArrivingFiles::End() {
  std::lock_guard lock(mutex_);
  has_ended_ = true;
  for (auto& [sha256, file] : files_) file.has_failed |= file.there < file.size;
  changed_.notify_all();
}

bool ArrivingFiles::HasEnded() const {
  std::lock_guard lock(mutex_);
  return has_ended_;
}

ArrivingFiles::Piece ArrivingFiles::Read(const std::string& sha256, uint64_t offset, char* to,
                                         size_t most, std::chrono::milliseconds wait) {
  std::shared_ptr<const common::UniqueFd> fd;
  uint64_t there = 0, size = 0;
  {
    std::unique_lock lock(mutex_);
    const auto is_known = [&] {
      const auto found = files_.find(sha256);
      if (found == files_.end()) return has_ended_;
      return found->second.has_failed || found->second.there > offset;
    };
    if (!changed_.wait_for(lock, wait, is_known)) return {};
    const auto found = files_.find(sha256);
    if (found == files_.end() || found->second.has_failed) return {.is_over = true};
    fd = found->second.fd;
    there = found->second.there;
    size = found->second.size;
  }
  const ssize_t count =
      pread(fd->get(), to, std::min<uint64_t>(most, there - offset), static_cast<off_t>(offset));
  if (count <= 0) return {.is_over = true};  // a rank has cut it, or the disk fails
  const auto bytes = static_cast<uint64_t>(count);
  return {.bytes = bytes, .is_whole = offset + bytes == size};
}

}  // namespace muster::worker
