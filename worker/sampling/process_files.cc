#include "worker/sampling/process_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace muster::worker {
namespace {

constexpr size_t kPathBytes = 48;  // "PID/NAME"

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

Directory OpenDirectoryAt(int at, const char* name) {
  const int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  DIR* directory = fdopendir(fd);
  if (directory == nullptr) close(fd);
  return Directory(directory);
}

// The number after "NAME: " in /proc/PID/io; 0 if there is none.
uint64_t IoField(const char* text, const char* name) {
  const char* at = std::strstr(text, name);
  return at == nullptr ? 0 : std::strtoull(at + std::strlen(name), nullptr, 10);
}

}  // namespace

void ProcessFiles::ListPids(size_t max, std::vector<pid_t>* pids) {
  pids->clear();
  if (!root_.valid()) {
    root_ = common::UniqueFd(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  const Directory directory = OpenDirectoryAt(root_.get(), ".");
  if (directory == nullptr) return;
  while (const dirent* entry = readdir(directory.get())) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0) continue;
    if (pids->size() == max) break;
    pids->push_back(pid);
  }
  std::sort(pids->begin(), pids->end());
}

bool ProcessFiles::ReadText(pid_t pid, const char* name, char* buffer, size_t size) const {
  char path[kPathBytes];
  std::snprintf(path, sizeof path, "%d/%s", pid, name);
  const common::UniqueFd file(openat(root_.get(), path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.valid()) return false;
  const ssize_t count = read(file.get(), buffer, size - 1);
  if (count <= 0) return false;
  buffer[count] = '\0';
  return true;
}

bool ProcessFiles::ReadStat(pid_t pid, ProcessUse* use) const {
  char buffer[1'024];
  if (!ReadText(pid, "stat", buffer, sizeof buffer)) return false;
  // The name in parentheses is chosen by the job: fields start after the last parenthesis.
  const char* rest = std::strrchr(buffer, ')');
  if (rest == nullptr) return false;
  char state = '?';
  int ppid = 0, session = 0;
  unsigned long faults = 0, waited_faults = 0, user = 0, system = 0;
  long waited_user = 0, waited_system = 0, threads = 0, pages = 0;
  unsigned long long start = 0;
  // Source: proc(5), fields 3 to 24.
  const int fields = std::sscanf(
      rest + 1,
      " %c %d %*d %d %*d %*d %*u %*u %*u %lu %lu %lu %lu %ld %ld %*d %*d %ld %*d %llu %*u %ld",
      &state, &ppid, &session, &faults, &waited_faults, &user, &system, &waited_user,
      &waited_system, &threads, &start, &pages);
  if (fields != 12) return false;
  *use = {.pid = pid,
          .ppid = ppid,
          .session = session,
          .start_ticks = start,
          .is_zombie = state == 'Z' || state == 'X',
          .threads = static_cast<uint32_t>(std::max(threads, 0L)),
          .resident_pages = static_cast<uint64_t>(std::max(pages, 0L)),
          .cpu_ticks = user + system,
          .waited_cpu_ticks = static_cast<uint64_t>(std::max(waited_user + waited_system, 0L)),
          .major_faults = faults,
          .waited_major_faults = waited_faults};
  return true;
}

void ProcessFiles::ReadIo(pid_t pid, ProcessUse* use) const {
  char buffer[512];
  if (!ReadText(pid, "io", buffer, sizeof buffer)) return;
  use->read_bytes = IoField(buffer, "\nread_bytes:");
  use->written_bytes = IoField(buffer, "\nwrite_bytes:");
}

std::string ProcessFiles::ReadCgroups(pid_t pid) const {
  char buffer[8'192];
  return ReadText(pid, "cgroup", buffer, sizeof buffer) ? buffer : "";
}

std::vector<uint32_t> ProcessFiles::OpenNumbers(pid_t pid, const std::string& prefix,
                                                size_t max) const {
  std::vector<uint32_t> numbers;
  char path[kPathBytes];
  std::snprintf(path, sizeof path, "%d/fd", pid);
  const Directory directory = OpenDirectoryAt(root_.get(), path);
  if (directory == nullptr) return numbers;
  for (size_t seen = 0; seen < max;) {
    const dirent* entry = readdir(directory.get());
    if (entry == nullptr) break;
    if (entry->d_name[0] == '.') continue;
    ++seen;
    char target[128];
    const ssize_t size =
        readlinkat(dirfd(directory.get()), entry->d_name, target, sizeof target - 1);
    if (size <= static_cast<ssize_t>(prefix.size())) continue;
    target[size] = '\0';
    if (std::strncmp(target, prefix.c_str(), prefix.size()) != 0) continue;
    char* end = nullptr;
    const unsigned long number = std::strtoul(target + prefix.size(), &end, 10);
    if (*end != '\0' || number > UINT32_MAX) continue;  // "/dev/nvidiactl", "/dev/nvidia-uvm"
    numbers.push_back(static_cast<uint32_t>(number));
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

}  // namespace muster::worker
