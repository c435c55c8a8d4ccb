// Appends whole records; see append_file.h.
#include "tracking/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "muster/base/errors.h"

namespace muster {
namespace {

constexpr size_t kFlushBytes = 1 << 20;

}  // namespace

void throw_tracker_errno(const std::string& action, const std::string& path) {
  throw Error("cannot " + action + " " + path + ": " + std::strerror(errno));
}

std::string make_tracker_directory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw Error("cannot create the directory " + path + ": " + error.message());
  return path;
}

AppendFile::AppendFile(const std::string& path)
    : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (!fd_.valid()) throw_tracker_errno("open", path_);
  struct stat status {};
  if (::fstat(fd_.get(), &status) == 0) size_ = status.st_size;
}

void AppendFile::record_is_complete() {
  if (buffer_.size() >= kFlushBytes) flush();
}

void AppendFile::flush() {
  const std::string records = std::move(buffer_);
  buffer_.clear();
  for (size_t written = 0; written < records.size();) {
    const ssize_t bytes = ::write(fd_.get(), records.data() + written, records.size() - written);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) {
      const int error = errno;
      // Devices cannot be truncated, and need not be.
      if (written > 0 && ::ftruncate(fd_.get(), size_) != 0 && errno != EINVAL) {
        throw_tracker_errno("cut", path_);
      }
      errno = error;
      throw_tracker_errno("write", path_);
    }
    written += static_cast<size_t>(bytes);
  }
  size_ += static_cast<int64_t>(records.size());
}

void AppendFile::finish() {
  if (!fd_.valid()) return;
  flush();
  // EINVAL: a device without durable storage.
  if (::fsync(fd_.get()) != 0 && errno != EINVAL) throw_tracker_errno("fsync", path_);
  if (::close(fd_.release()) != 0) throw_tracker_errno("close", path_);
}

}  // namespace muster
