#include "common/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace muster::common {
namespace {

constexpr unsigned kExiting = 4;  // PF_EXITING in linux/sched.h

// Closes on scope exit and preserves errno.
struct ScopedFd {
  int fd;
  ~ScopedFd() {
    const int saved = errno;
    if (fd >= 0) close(fd);
    errno = saved;
  }
};

int64_t Micros(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000 + now.tv_nsec / 1000;
}

// Creates a file of ours for writing. Ranks can write to its directory, so a FIFO or link in its
// place is removed first.
int OpenBeside(const std::string& path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC;
  const int fd = open(path.c_str(), kFlags, 0600);
  struct stat info {};
  if (fd < 0 && errno != ENXIO && errno != ELOOP) return fd;
  if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) return fd;
  if (fd >= 0) close(fd);
  unlink(path.c_str());
  return open(path.c_str(), kFlags | O_EXCL, 0600);
}

}  // namespace

bool NoDescriptor() { return errno == EMFILE || errno == ENFILE || errno == ENOMEM; }

bool ReadProcessStat(pid_t pid, ProcessStat* stat) {
  char path[40];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  ScopedFd file{open(path, O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return false;
  char buffer[1024];
  const ssize_t count = read(file.fd, buffer, sizeof buffer - 1);
  if (count <= 0) return false;
  buffer[count] = '\0';
  // The name in parentheses may itself contain spaces and parentheses: fields start after the last
  // one.
  const char* rest = std::strrchr(buffer, ')');
  const char* name = std::strchr(buffer, '(');
  if (rest == nullptr || name == nullptr) return false;
  unsigned long long start_time = 0;
  int ppid = 0, pgrp = 0, session = 0;
  unsigned flags = 0;
  char state = '?';
  const int fields = std::sscanf(
      rest + 1, " %c %d %d %d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
      &state, &ppid, &pgrp, &session, &flags, &start_time);
  if (fields != 6) return false;
  const bool is_first =
      std::strncmp(name + 1, kFirstProcessName, std::strlen(kFirstProcessName)) == 0;
  if (is_first && (flags & kExiting) != 0) state = 'X';
  *stat = ProcessStat{pid, ppid, pgrp, session, state, start_time};
  return true;
}

std::vector<ProcessStat> ListProcesses(bool* whole) {
  std::vector<ProcessStat> processes;
  DIR* directory = opendir("/proc");
  if (directory == nullptr) {
    if (whole != nullptr) *whole = false;
    return processes;
  }
  while (const dirent* entry = readdir(directory)) {
    const pid_t pid = std::atoi(entry->d_name);
    ProcessStat stat;
    if (pid <= 0) continue;
    errno = 0;
    if (ReadProcessStat(pid, &stat)) {
      processes.push_back(stat);
    } else if (whole != nullptr && NoDescriptor()) {
      *whole = false;
    }
  }
  closedir(directory);
  std::sort(processes.begin(), processes.end(),
            [](const ProcessStat& a, const ProcessStat& b) { return a.pid < b.pid; });
  return processes;
}

std::vector<pid_t> ListChildren() {
  const pid_t self = getpid();
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/children", self);
  std::vector<pid_t> children;
  std::string text;
  if (ReadSmallFile(path, &text)) {
    const char* cursor = text.c_str();
    char* end = nullptr;
    while (const long pid = std::strtol(cursor, &end, 10)) {
      children.push_back(static_cast<pid_t>(pid));
      cursor = end;
    }
    return children;
  }
  // For a kernel without CONFIG_PROC_CHILDREN.
  for (const ProcessStat& stat : ListProcesses()) {
    if (stat.ppid == self) children.push_back(stat.pid);
  }
  return children;
}

std::string EnvironValue(pid_t pid, std::string_view name, bool* whole) {
  char path[40];
  std::snprintf(path, sizeof path, "/proc/%d/environ", pid);
  std::string variables;
  if (!ReadSmallFile(path, &variables)) {
    if (whole != nullptr && NoDescriptor()) *whole = false;
    return {};
  }
  const std::string assignment = std::string(name) + "=";
  for (size_t at = 0; at < variables.size();) {
    const size_t end = std::min(variables.find('\0', at), variables.size());
    if (variables.compare(at, assignment.size(), assignment) == 0) {
      return variables.substr(at + assignment.size(), end - at - assignment.size());
    }
    at = end + 1;
  }
  return {};
}

bool ReadSmallFile(const std::string& path, std::string* content, size_t max_bytes) {
  content->clear();
  // Some of these paths are where ranks can create a FIFO.
  ScopedFd file{open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)};
  return file.fd >= 0 && ReadAllFd(file.fd, content, max_bytes);
}

bool ReadAllFd(int fd, std::string* content, size_t max_bytes) {
  char buffer[16 * 1024];
  while (true) {
    const ssize_t count = read(fd, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    if (count == 0) return true;
    if (content->size() + static_cast<size_t>(count) > max_bytes) {
      errno = EFBIG;
      return false;
    }
    content->append(buffer, static_cast<size_t>(count));
  }
}

bool WriteAllFd(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t count = write(fd, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    content.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

bool WriteControlFile(const std::string& path, std::string_view content) {
  ScopedFd file{open(path.c_str(), O_WRONLY | O_CLOEXEC)};
  return file.fd >= 0 && WriteAllFd(file.fd, content);
}

bool ReplaceFile(const std::string& path, std::string_view content, bool durable) {
  const std::string beside = path + ".tmp";
  {
    // Not O_TRUNC: this must reuse the blocks that ReserveFile allocated.
    ScopedFd file{OpenBeside(beside)};
    if (file.fd < 0 || !WriteAllFd(file.fd, content)) return false;
    if (ftruncate(file.fd, static_cast<off_t>(content.size())) != 0) return false;
    if (durable && fsync(file.fd) != 0) return false;
  }
  if (rename(beside.c_str(), path.c_str()) != 0) return false;
  if (!durable) return true;
  const std::string parent = path.substr(0, path.rfind('/') + 1);
  ScopedFd directory{
      open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  return directory.fd >= 0 && fsync(directory.fd) == 0;
}

void ReserveFile(const std::string& path, int64_t bytes) {
  ScopedFd file{OpenBeside(path)};
  if (file.fd >= 0) fallocate(file.fd, 0, 0, bytes);
}

int64_t MonotonicMicros() { return Micros(CLOCK_BOOTTIME); }
int64_t WallMicros() { return Micros(CLOCK_REALTIME); }

}  // namespace muster::common
