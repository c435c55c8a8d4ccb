#include "common/kernel/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "common/files/plain_files.h"

namespace muster::common {
namespace {

constexpr unsigned kExiting = 4;  // PF_EXITING in linux/sched.h

int64_t Micros(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000 + now.tv_nsec / 1000;
}

}  // namespace

bool NoDescriptor() { return errno == EMFILE || errno == ENFILE || errno == ENOMEM; }

bool ReadProcessStat(pid_t pid, ProcessStat* stat) {
  char path[40];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char buffer[1024];
  const ssize_t count = read(file, buffer, sizeof buffer - 1);
  close(file);
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

int64_t MonotonicMicros() { return Micros(CLOCK_BOOTTIME); }
int64_t WallMicros() { return Micros(CLOCK_REALTIME); }

}  // namespace muster::common
