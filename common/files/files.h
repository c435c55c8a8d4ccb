// The process's only access to the file system: small whole-file reads, durable writes,
// directories. Any thread. Errors carry the path and the reason: "cannot open /x/y: No such file or
// directory".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::common {

// Owns a file descriptor.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  ~UniqueFd() { Reset(); }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release();
  void Reset();

 private:
  int fd_ = -1;
};

// A status for the current errno: "<what>: <strerror>". ENOSPC and EDQUOT become
// RESOURCE_EXHAUSTED, EMFILE and ENFILE UNAVAILABLE (no descriptor is free now, but one will be),
// ENOENT NOT_FOUND, EACCES and EPERM PERMISSION_DENIED, EEXIST ALREADY_EXISTS, all others INTERNAL.
absl::Status ErrnoStatus(std::string_view what);

// open(2) of a file that another user may have put there: never waits for the other end of a FIFO
// or for a device, never acquires a controlling terminal. INVALID_ARGUMENT if it is not a regular
// file. Can still hang on a network file system, so never call it on a control loop. `mode` matters
// with O_CREAT.
absl::StatusOr<UniqueFd> OpenRegular(const std::string& path, int flags, int mode = 0600);
// Opens with O_PATH, resolving the path as the kernel does for a process whose root is that directory: links
// stay inside.
// An errno's status if there is no such file.
absl::StatusOr<UniqueFd> OpenInRoot(int root, const std::string& path);

// Reads a regular file.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes = 64 << 20);
// Reads whatever a person names on a command line, including a FIFO, /dev/stdin or <(command),
// waiting for it.
absl::StatusOr<std::string> ReadFileOrPipe(const std::string& path, size_t max_bytes = 64 << 20);

// Writes a temporary file next to the target, fsyncs it, renames it over the target and fsyncs the
// directory: after a crash the file has either the old or the new content.
absl::Status WriteFileDurably(const std::string& path, std::string_view content, int mode = 0600);
// The same for a file that must be new: ALREADY_EXISTS if there is one, which stays as it is.
absl::Status CreateFileDurably(const std::string& path, std::string_view content, int mode = 0600);

// The same, but not synced: the file outlives this process, not the machine, and a control loop may
// write it. For content that is worthless after a power failure.
absl::Status WriteFileAtomically(const std::string& path, std::string_view content);

// Writes over the start of the file, which is made if there is none, and syncs nothing: for texts of
// one width that may be lost.
absl::Status WriteInPlace(const std::string& path, std::string_view content);

// Reads `size` bytes from `offset`, fewer only at the end of the file. `name` is for the error.
absl::StatusOr<std::string> ReadAt(int fd, uint64_t offset, size_t size, std::string_view name);
// Writes all of `data`, however little each write(2) takes.
absl::Status WriteAll(int fd, std::string_view data);

// mkdir -p. Existing directories keep their mode.
absl::Status MakeDirectories(const std::string& path, int mode = 0700);
absl::Status SyncDirectory(const std::string& path);
// rm -rf, using few descriptors at any depth. OK if nothing is there.
absl::Status RemoveTree(const std::string& path);
bool Exists(const std::string& path);
// Names without "." and "..", sorted. RESOURCE_EXHAUSTED if there are more than `max`.
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path,
                                                       size_t max = SIZE_MAX);

// Takes an exclusive flock on `path` (created if missing). FAILED_PRECONDITION if another process
// holds it.
absl::StatusOr<UniqueFd> LockFile(const std::string& path);

}  // namespace muster::common
