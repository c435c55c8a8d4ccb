// File system access for checkpoints, metric files and error files: durable writes, atomic
// publication, precise errors. Any thread. Throws CheckpointError with the path and errno's text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/sha256.h"

namespace muster {

// Owns a file descriptor.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release();
  void reset(int fd = -1);

 private:
  int fd_;
};

// Throws CheckpointError("cannot <action> <path>: <errno's text>").
[[noreturn]] void throw_errno(const std::string& action, const std::string& path);

// A new file that hashes what is written to it. finish() makes it durable; an unfinished file is
// left for the owner of the directory to remove.
class HashingFile {
 public:
  // Creates or truncates the file.
  explicit HashingFile(const std::string& path);
  // Small pieces are written together, so the error of one may be a later call's.
  void write(const void* data, size_t bytes);
  void finish();  // write what is left, fsync and close
  uint64_t bytes() const { return bytes_ + small_.size(); }
  std::string sha256() { return hash_.hex_digest(); }  // once, after finish()

 private:
  void write_through(const char* data, size_t bytes);
  void flush();

  std::string path_;
  FileDescriptor fd_;
  Sha256 hash_;
  uint64_t bytes_ = 0;
  std::string small_;  // small writes, until they are many
};

bool path_exists(const std::string& path);

// mkdir -p with mode 0777 minus the umask.
void make_directories(const std::string& path);

// Removes a file or a directory tree; a missing path is not an error.
void remove_tree(const std::string& path);

// The whole file; throws if it is longer than most_bytes.
std::string read_file(const std::string& path, uint64_t most_bytes);

// `bytes` bytes from `offset` on. Throws FormatError if the file ends before. `path`: for errors.
void read_at(const FileDescriptor& fd, const std::string& path, uint64_t offset, void* into,
             uint64_t bytes);

// SHA-256 of a whole file, 64 hex digits.
std::string sha256_of_file(const std::string& path);

// Writes path through a temporary file in the same directory: write, fsync, rename, fsync of the
// directory. At every moment, and after a power loss, the path holds either the old or the new
// content.
void write_file_durably(const std::string& path, std::string_view content);
// The same, but not synced: whole after the end of the process, not of the machine.
void write_file_atomically(const std::string& path, std::string_view content);
// Gives a finished temporary file of the same directory its name, in place of what had it.
void move_into_place(const std::string& temporary, const std::string& path);

void fsync_directory(const std::string& path);

// Durably renames the finished directory `from` to `to`, in the same parent. An existing directory
// at `to` is swapped atomically, so that `to` always exists, and then removed.
void publish_directory(const std::string& from, const std::string& to);

// The directory part of a path; "." if there is none.
std::string parent_of(const std::string& path);

}  // namespace muster
