// POSIX file operations with exact errors; see files.h.
#include "base/files.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "muster/base/errors.h"

namespace muster {
namespace {

constexpr size_t kWritePiece = size_t{4} << 20;
constexpr size_t kSmallBytes = size_t{256} << 10;  // less is written together

FileDescriptor open_or_throw(const std::string& path, int flags, const char* action) {
  FileDescriptor fd(::open(path.c_str(), flags | O_CLOEXEC, 0666));
  if (!fd.valid()) throw_errno(action, path);
  return fd;
}

void write_all(int fd, const void* data, size_t bytes, const std::string& path) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(fd, next, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_errno("write", path);
    next += written;
    bytes -= static_cast<size_t>(written);
  }
}

// Calls consume(data, bytes) for each block of the file.
template <typename Consume>
void read_pieces(const std::string& path, Consume consume) {
  const FileDescriptor fd = open_or_throw(path, O_RDONLY, "read");
  std::vector<char> piece(1 << 20);
  while (true) {
    const ssize_t bytes = ::read(fd.get(), piece.data(), piece.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) throw_errno("read", path);
    if (bytes == 0) return;
    consume(piece.data(), static_cast<size_t>(bytes));
  }
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) reset(other.release());
  return *this;
}

int FileDescriptor::release() {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

void FileDescriptor::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

void throw_errno(const std::string& action, const std::string& path) {
  throw CheckpointError("cannot " + action + " " + path + ": " + std::strerror(errno));
}

HashingFile::HashingFile(const std::string& path)
    : path_(path), fd_(open_or_throw(path, O_WRONLY | O_CREAT | O_TRUNC, "create")) {}

void HashingFile::write(const void* data, size_t bytes) {
  if (small_.size() + bytes > kSmallBytes) flush();
  if (bytes > kSmallBytes) {
    write_through(static_cast<const char*>(data), bytes);
  } else {
    small_.append(static_cast<const char*>(data), bytes);
  }
}

void HashingFile::flush() {
  write_through(small_.data(), small_.size());
  small_.clear();
}

void HashingFile::write_through(const char* next, size_t bytes) {
  while (bytes > 0) {
    const size_t piece = std::min(bytes, kWritePiece);
    write_all(fd_.get(), next, piece, path_);
    // Starts writeback now, so that the disk works while the block is hashed and fsync has little
    // left to do. Only a hint: write errors show up at fsync.
    ::sync_file_range(fd_.get(), static_cast<off64_t>(bytes_), static_cast<off64_t>(piece),
                      SYNC_FILE_RANGE_WRITE);
    hash_.update(next, piece);
    bytes_ += piece;
    next += piece;
    bytes -= piece;
  }
}

void HashingFile::finish() {
  flush();
  if (::fsync(fd_.get()) != 0) throw_errno("fsync", path_);
  // On a network file system, close() reports delayed write errors.
  if (::close(fd_.release()) != 0) throw_errno("close", path_);
}

bool path_exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

void make_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw CheckpointError("cannot create the directory " + path + ": " + error.message());
}

void remove_tree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) throw CheckpointError("cannot remove " + path + ": " + error.message());
}

std::string read_file(const std::string& path, uint64_t most_bytes) {
  std::string content;
  read_pieces(path, [&](const char* data, size_t bytes) {
    if (content.size() + bytes > most_bytes) {
      throw FormatError(path + " is longer than " + std::to_string(most_bytes) + " bytes");
    }
    content.append(data, bytes);
  });
  return content;
}

void read_at(const FileDescriptor& fd, const std::string& path, uint64_t offset, void* into,
             uint64_t bytes) {
  char* next = static_cast<char*>(into);
  while (bytes > 0) {
    const ssize_t got = ::pread(fd.get(), next, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("read", path);
    if (got == 0) throw FormatError(path + ": the file was truncated while it was read");
    next += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<uint64_t>(got);
  }
}

std::string sha256_of_file(const std::string& path) {
  Sha256 hash;
  read_pieces(path, [&](const char* data, size_t bytes) { hash.update(data, bytes); });
  return hash.hex_digest();
}

namespace {

void write_and_move(const std::string& path, std::string_view content, bool is_synced) {
  const std::string temporary = path + ".tmp";
  {
    const FileDescriptor fd = open_or_throw(temporary, O_WRONLY | O_CREAT | O_TRUNC, "create");
    write_all(fd.get(), content.data(), content.size(), temporary);
    if (is_synced && ::fsync(fd.get()) != 0) throw_errno("fsync", temporary);
  }
  move_into_place(temporary, path);
}

}  // namespace

void write_file_durably(const std::string& path, std::string_view content) {
  write_and_move(path, content, true);
  fsync_directory(parent_of(path));
}

void write_file_atomically(const std::string& path, std::string_view content) {
  write_and_move(path, content, false);
}

void move_into_place(const std::string& temporary, const std::string& path) {
  if (::rename(temporary.c_str(), path.c_str()) != 0) throw_errno("rename", temporary);
}

void fsync_directory(const std::string& path) {
  const FileDescriptor fd = open_or_throw(path, O_RDONLY | O_DIRECTORY, "open");
  if (::fsync(fd.get()) != 0) throw_errno("fsync", path);
}

void publish_directory(const std::string& from, const std::string& to) {
  fsync_directory(from);
  const bool replaces = path_exists(to);
  const unsigned flags = replaces ? RENAME_EXCHANGE : RENAME_NOREPLACE;
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) != 0) {
    // Some network file systems support only plain rename.
    if (errno != EINVAL && errno != ENOSYS) throw_errno("publish", to);
    if (replaces) remove_tree(to);
    if (::rename(from.c_str(), to.c_str()) != 0) throw_errno("publish", to);
  }
  fsync_directory(parent_of(to));
  if (replaces) remove_tree(from);
}

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace muster
