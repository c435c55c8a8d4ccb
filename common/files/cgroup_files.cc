#include "common/files/cgroup_files.h"

#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "common/files/plain_files.h"

namespace muster::common {
namespace {

// limit: nodes: a cgroup table in /proc; counts as unknown
constexpr size_t kProcFileBytesMax = 4 << 20;
// limit: nodes: a cgroup's counters; count as unknown
constexpr size_t kControlFileBytesMax = 64 << 10;
constexpr int64_t kRequestMax =
    1 << 20;  // larger ones are retried in pieces before anyone is killed

// The number after `name` in a file of "name number" lines; -1: none.
int64_t CounterIn(const std::string& path, const char* name) {
  std::string text, line;
  ReadSmallFile(path, &text, kControlFileBytesMax);
  for (std::string_view rest = text; NextLine(&rest, &line);) {
    char key[32];
    long long count = 0;
    if (std::sscanf(line.c_str(), "%31s %lld", key, &count) == 2 && std::strcmp(key, name) == 0) {
      return count < 0 ? -1 : count;
    }
  }
  return -1;
}

// A file that holds one number; -1: none.
int64_t NumberIn(const std::string& path) {
  std::string text;
  ReadSmallFile(path, &text, kControlFileBytesMax);
  long long value = 0;
  return std::sscanf(text.c_str(), "%lld", &value) == 1 && value >= 0 ? value : -1;
}

}  // namespace

bool NextLine(std::string_view* rest, std::string* line) {
  if (rest->empty()) return false;
  const size_t end = std::min(rest->find('\n'), rest->size());
  *line = rest->substr(0, end);
  rest->remove_prefix(std::min(end + 1, rest->size()));
  return true;
}

std::string CgroupDirectory(const std::string& cgroups, const std::string& mounts,
                            const std::string& controller) {
  std::string line, path;
  for (std::string_view rest = cgroups; NextLine(&rest, &line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool match = controller.empty() ? line.rfind("0::", 0) == 0
                                          : names.find("," + controller + ",") != std::string::npos;
    if (match) path = line.substr(second + 1);
  }
  if (path.empty()) return {};
  for (std::string_view rest = mounts; NextLine(&rest, &line);) {
    // id parent dev root mount-point options … - type source super-options
    char root[512], point[512];
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos ||
        std::sscanf(line.c_str(), "%*s %*s %*s %511s %511s", root, point) != 2) {
      continue;
    }
    const std::string tail = line.substr(dash + 3) + ",";
    const size_t options = tail.rfind(' ');
    const bool match = controller.empty()
                           ? tail.rfind("cgroup2 ", 0) == 0
                           : tail.rfind("cgroup ", 0) == 0 &&
                                 ("," + tail.substr(options + 1)).find("," + controller + ",") !=
                                     std::string::npos;
    if (!match) continue;
    // Only what is mounted here can be used: not what is above or beside it.
    std::string below = path;
    const size_t length = std::strcmp(root, "/") == 0 ? 0 : std::strlen(root);
    const bool within = below.compare(0, length, root, length) == 0 &&
                        (below.size() == length || below[length] == '/');
    if (!within || (below + "/").find("/../") != std::string::npos) continue;
    below.erase(0, length);
    if (below == "/") below.clear();
    return point + below;
  }
  return {};
}

std::string OwnCgroup(const std::string& controller) {
  std::string cgroups, mounts;
  ReadSmallFile("/proc/self/cgroup", &cgroups, kProcFileBytesMax);
  ReadSmallFile("/proc/self/mountinfo", &mounts, kProcFileBytesMax);
  return CgroupDirectory(cgroups, mounts, controller);
}

bool IsDelegatedCgroup(const std::string& directory) {
  char value = 0;
  return (getxattr(directory.c_str(), "trusted.delegate", &value, 1) == 1 && value == '1') ||
         (getxattr(directory.c_str(), "user.delegate", &value, 1) == 1 && value == '1');
}

bool MayUseCgroup(const std::string& directory) {
  if (access((directory + "/cgroup.procs").c_str(), W_OK) != 0 ||
      access(directory.c_str(), W_OK) != 0) {
    return false;
  }
  if (getuid() != 0 || access("/run/systemd/system", F_OK) != 0) return true;
  return IsDelegatedCgroup(directory);
}

int64_t OutOfMemoryKills(const std::string& attempt_dir) {
  constexpr char kKills[] = "oom_kill";
  // The root of a hierarchy does not have this counter.
  for (const std::string& directory : {attempt_dir, OwnCgroup("")}) {
    const int64_t count = directory.empty() ? -1 : CounterIn(directory + "/memory.events", kKills);
    if (count >= 0) return count;
  }
  const std::string v1 = OwnCgroup("memory");
  return v1.empty() ? -1 : CounterIn(v1 + "/memory.oom_control", kKills);
}

MemoryEvents ReadMemoryEvents(const std::string& directory) {
  MemoryEvents events;
  events.kills = CounterIn(directory + "/memory.events", "oom_kill");
  if (events.kills >= 0) {
    // "oom" counts where the limit was, oom_kill where the victim was.
    events.hit_limit = CounterIn(directory + "/memory.events", "oom") > 0;
    return events;
  }
  events.kills = CounterIn(directory + "/memory.oom_control", "oom_kill");
  // Newer kernels do not count every refusal here, but the peak usage shows it: a rank that was
  // killed at its limit had used all of it, except for what the last request asked for.
  const int64_t limit = NumberIn(directory + "/memory.limit_in_bytes");
  const int64_t peak = NumberIn(directory + "/memory.max_usage_in_bytes");
  events.hit_limit =
      NumberIn(directory + "/memory.failcnt") > 0 || (limit > 0 && peak >= limit - kRequestMax);
  return events;
}

}  // namespace muster::common
