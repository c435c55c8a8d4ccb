#include "worker/checkpoints/arriving_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

namespace muster::worker {

bool ArrivingFiles::Begin(const std::string& sha256, uint64_t size, int fd) {
  if (size < kBytesMin) return false;
  std::lock_guard lock(mutex_);
  // The same bytes may stand in several files.
  if (files_.contains(sha256)) return false;
  File& file = files_[sha256];
  file.size = size;
  if (open_ < files_max_) {
    auto copy = std::make_shared<const common::UniqueFd>(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (copy->valid()) file.fd = std::move(copy);
  }
  file.has_failed = file.fd == nullptr;
  if (!file.has_failed) ++open_;
  changed_.notify_all();
  return !file.has_failed;
}

void ArrivingFiles::Advance(const std::string& sha256, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  const auto found = files_.find(sha256);
  if (found == files_.end() || found->second.there >= bytes) return;
  found->second.there = std::min(bytes, found->second.size);
  changed_.notify_all();
}

void ArrivingFiles::Restart(const std::string& sha256) {
  std::lock_guard lock(mutex_);
  const auto found = files_.find(sha256);
  if (found == files_.end()) return;
  found->second.there = 0;
  ++found->second.tries;
  changed_.notify_all();
}

void ArrivingFiles::Step() {
  std::lock_guard lock(mutex_);
  ++steps_;
}

uint64_t ArrivingFiles::Steps() const {
  std::lock_guard lock(mutex_);
  return steps_;
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

void ArrivingFiles::Clear() {
  std::lock_guard lock(mutex_);
  has_ended_ = true;
  files_.clear();
  changed_.notify_all();
}

ArrivingFiles::Piece ArrivingFiles::Read(const std::string& sha256, uint64_t offset, uint32_t tries,
                                         char* to, size_t most, std::chrono::milliseconds wait) {
  File file;
  {
    std::unique_lock lock(mutex_);
    const auto began_again = [&](const File& each) { return offset > 0 && each.tries != tries; };
    const auto is_known = [&] {
      const auto found = files_.find(sha256);
      if (found == files_.end()) return has_ended_;
      const File& each = found->second;
      return each.has_failed || each.there > offset || began_again(each);
    };
    if (!changed_.wait_for(lock, wait, is_known)) return {.tries = tries};
    const auto found = files_.find(sha256);
    if (found == files_.end() || found->second.has_failed || began_again(found->second))
      return {.is_over = true};
    file = found->second;
  }
  const ssize_t count = pread(file.fd->get(), to, std::min<uint64_t>(most, file.there - offset),
                              static_cast<off_t>(offset));
  if (count <= 0) return {.is_over = true};  // a rank has cut it, or the disk fails
  const auto bytes = static_cast<uint64_t>(count);
  return {.bytes = bytes, .is_whole = offset + bytes == file.size, .tries = file.tries};
}

}  // namespace muster::worker
