// A disk that fails: preloaded into the real muster-coordinator or muster-worker, it makes chosen system
// calls on chosen files below a directory fail. For faults_test.py and node_disk_test.py.
//
//   MUSTER_FAULT_ROOT  the data directory, or the worker's state directory
//   MUSTER_FAULTS      CLASS:CALL:ERRNO:FIRST:COUNT,…  the FIRST-th call (from 1) on a file of the class fails,
//                      and so do those that follow, COUNT in all (0: all). ERRNO is a number;
//                      0: the call is only noted.
//   MUSTER_FAULT_LOG   a file that gets a line per failure: CLASS CALL ERRNO PATH
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct Fault {
  std::string of_class;
  std::string call;
  int error = EIO;
  long first = 1;
  long count = 1;
  std::atomic<long> seen = 0;
};

struct Plan {
  std::string root;
  std::string log;
  std::vector<Fault*> faults;
};

std::vector<std::string> Split(std::string_view text, char by) {
  std::vector<std::string> parts;
  while (true) {
    const size_t at = text.find(by);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string Env(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

// Never freed: the daemon's last threads still call.
const Plan& ThePlan() {
  static const Plan& plan = *[] {
    auto* made = new Plan{Env("MUSTER_FAULT_ROOT"), Env("MUSTER_FAULT_LOG"), {}};
    if (made->root.empty()) return made;
    for (const std::string& text : Split(Env("MUSTER_FAULTS"), ',')) {
      const std::vector<std::string> parts = Split(text, ':');
      if (parts.size() != 5) continue;
      auto* fault = new Fault;
      fault->of_class = parts[0];
      fault->call = parts[1];
      fault->error = atoi(parts[2].c_str());
      fault->first = atol(parts[3].c_str());
      fault->count = atol(parts[4].c_str());
      made->faults.push_back(fault);
    }
    return made;
  }();
  return plan;
}

bool Begins(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

// What lies at a path of an attempt: "JOB-ATTEMPT/spool/rank-0.stdout".
const char* ClassOfAttempt(std::string_view path) {
  path.remove_prefix(std::min(path.size(), path.find('/')));
  if (Begins(path, "/spool/")) return "spool";
  if (Begins(path, "/metrics/")) return "points";
  if (Begins(path, "/uploads/") || Begins(path, "/checkpoints/")) return "save";
  return "attempt";
}

// What lies at a path below the data directory, or the state directory.
const char* ClassOf(std::string_view path) {
  if (Begins(path, "attempts/")) return ClassOfAttempt(path.substr(strlen("attempts/")));
  if (Begins(path, "code/")) return "code";
  if (Begins(path, "muster.db-wal")) return "wal";
  if (Begins(path, "muster.db")) return "database";
  if (Begins(path, "logs/")) return "log";
  if (Begins(path, "metrics/")) return "metric";
  if (Begins(path, "samples/")) return "sample";
  if (Begins(path, "blobs/") || Begins(path, "uploads/")) return "blob";
  if (Begins(path, "audit/")) return "audit";
  return "other";
}

std::string PathOf(int fd) {
  char link[64];
  char path[4096] = {};
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  return readlink(link, path, sizeof path - 1) < 0 ? "" : path;
}

bool HasFaultOf(const char* call) {
  for (const Fault* fault : ThePlan().faults) {
    if (fault->call == call) return true;
  }
  return false;
}

void Note(const Fault& fault, const std::string& path) {
  const std::string line =
      fault.of_class + " " + fault.call + " " + std::to_string(fault.error) + " " + path + "\n";
  static auto* const real_open =
      reinterpret_cast<int (*)(const char*, int, ...)>(dlsym(RTLD_NEXT, "open"));
  static auto* const real_write =
      reinterpret_cast<ssize_t (*)(int, const void*, size_t)>(dlsym(RTLD_NEXT, "write"));
  const int fd = real_open(ThePlan().log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  if (real_write(fd, line.data(), line.size()) < 0) abort();
  close(fd);
}

// Whether this call fails; errno is then set.
bool FailsAt(const char* call, const std::string& path) {
  const Plan& plan = ThePlan();
  if (!Begins(path, plan.root + "/")) return false;
  const std::string below = path.substr(plan.root.size() + 1);
  for (Fault* fault : plan.faults) {
    if (fault->call != call || fault->of_class != ClassOf(below)) continue;
    const long number = ++fault->seen;
    if (number < fault->first) continue;
    if (fault->count != 0 && number >= fault->first + fault->count) continue;
    Note(*fault, below);
    if (fault->error == 0) continue;
    errno = fault->error;
    return true;
  }
  return false;
}

bool Fails(const char* call, int fd) {
  if (!HasFaultOf(call)) return false;
  const int before = errno;
  const std::string path = PathOf(fd);
  errno = before;
  return FailsAt(call, path);
}

bool Fails(const char* call, int at, const char* path) {
  if (!HasFaultOf(call) || path == nullptr) return false;
  if (path[0] == '/' || at == AT_FDCWD) return FailsAt(call, path);
  return FailsAt(call, PathOf(at) + "/" + path);
}

template <typename Function>
Function* Real(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

mode_t ModeOf(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

// NAME is the function, CALL what a plan calls it.
#define MUSTER_OPEN(NAME)                         \
  int NAME(const char* path, int flags, ...) {    \
    va_list arguments;                            \
    va_start(arguments, flags);                   \
    const mode_t mode = ModeOf(flags, arguments); \
    va_end(arguments);                            \
    if (Fails("open", AT_FDCWD, path)) return -1; \
    static auto* const real = Real(&NAME, #NAME); \
    return real(path, flags, mode);               \
  }
#define MUSTER_OPENAT(NAME)                            \
  int NAME(int at, const char* path, int flags, ...) { \
    va_list arguments;                                 \
    va_start(arguments, flags);                        \
    const mode_t mode = ModeOf(flags, arguments);      \
    va_end(arguments);                                 \
    if (Fails("open", at, path)) return -1;            \
    static auto* const real = Real(&NAME, #NAME);      \
    return real(at, path, flags, mode);                \
  }
#define MUSTER_ON_FD(TYPE, NAME, CALL, PARAMETERS, ARGUMENTS) \
  TYPE NAME PARAMETERS {                                      \
    if (Fails(CALL, fd)) return -1;                           \
    static auto* const real = Real(&NAME, #NAME);             \
    return real ARGUMENTS;                                    \
  }
#define MUSTER_ON_PATH(NAME, CALL, AT, PATH, PARAMETERS, ARGUMENTS) \
  int NAME PARAMETERS {                                             \
    if (Fails(CALL, AT, PATH)) return -1;                           \
    static auto* const real = Real(&NAME, #NAME);                   \
    return real ARGUMENTS;                                          \
  }

extern "C" {
MUSTER_OPEN(open)
MUSTER_OPEN(open64)
MUSTER_OPENAT(openat)
MUSTER_OPENAT(openat64)
MUSTER_ON_FD(ssize_t, read, "read", (int fd, void* to, size_t size), (fd, to, size))
MUSTER_ON_FD(ssize_t, pread, "read", (int fd, void* to, size_t size, off_t from),
             (fd, to, size, from))
MUSTER_ON_FD(ssize_t, pread64, "read", (int fd, void* to, size_t size, off64_t from),
             (fd, to, size, from))
MUSTER_ON_FD(ssize_t, write, "write", (int fd, const void* data, size_t size), (fd, data, size))
MUSTER_ON_FD(ssize_t, pwrite, "write", (int fd, const void* data, size_t size, off_t to),
             (fd, data, size, to))
MUSTER_ON_FD(ssize_t, pwrite64, "write", (int fd, const void* data, size_t size, off64_t to),
             (fd, data, size, to))
MUSTER_ON_FD(ssize_t, pwritev, "write", (int fd, const iovec* data, int count, off_t to),
             (fd, data, count, to))
MUSTER_ON_FD(ssize_t, pwritev64, "write", (int fd, const iovec* data, int count, off64_t to),
             (fd, data, count, to))
MUSTER_ON_FD(int, fsync, "sync", (int fd), (fd))
MUSTER_ON_FD(int, fdatasync, "sync", (int fd), (fd))
MUSTER_ON_FD(int, syncfs, "sync", (int fd) noexcept, (fd))
MUSTER_ON_FD(int, ftruncate, "truncate", (int fd, off_t size) noexcept, (fd, size))
MUSTER_ON_FD(int, ftruncate64, "truncate", (int fd, off64_t size) noexcept, (fd, size))
MUSTER_ON_PATH(rename, "rename", AT_FDCWD, to, (const char* from, const char* to) noexcept,
               (from, to))
MUSTER_ON_PATH(unlink, "unlink", AT_FDCWD, path, (const char* path) noexcept, (path))
MUSTER_ON_PATH(unlinkat, "unlink", at, path, (int at, const char* path, int flags) noexcept,
               (at, path, flags))
MUSTER_ON_PATH(mkdir, "mkdir", AT_FDCWD, path, (const char* path, mode_t mode) noexcept,
               (path, mode))
MUSTER_ON_PATH(mkdirat, "mkdir", at, path, (int at, const char* path, mode_t mode) noexcept,
               (at, path, mode))

// What the compiler makes of some of them, with checks that are of no use here.
ssize_t __read_chk(int fd, void* to, size_t size, size_t) { return read(fd, to, size); }
ssize_t __pread_chk(int fd, void* to, size_t size, off_t from, size_t) {
  return pread(fd, to, size, from);
}
ssize_t __pread64_chk(int fd, void* to, size_t size, off64_t from, size_t) {
  return pread64(fd, to, size, from);
}
int __open_2(const char* path, int flags) { return open(path, flags); }
int __open64_2(const char* path, int flags) { return open64(path, flags); }
int __openat_2(int at, const char* path, int flags) { return openat(at, path, flags); }
int __openat64_2(int at, const char* path, int flags) { return openat64(at, path, flags); }
}
