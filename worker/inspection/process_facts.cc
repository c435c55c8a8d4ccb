// process_facts: small files of /proc, each of which may be missing or forbidden.
#include "worker/inspection/process_facts.h"

#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/files/plain_files.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::worker {
namespace {

constexpr size_t kThreadsTold = 64;
constexpr size_t kChainMax = 8;
constexpr size_t kMapBytesMax = 4 << 20;

constexpr std::pair<long, const char*> kCallNames[] = {
    {SYS_read, "read"},
    {SYS_write, "write"},
    {SYS_ppoll, "ppoll"},
    {SYS_pselect6, "pselect6"},
    {SYS_epoll_pwait, "epoll_pwait"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_clock_nanosleep, "clock_nanosleep"},
    {SYS_futex, "futex"},
    {SYS_wait4, "wait4"},
    {SYS_waitid, "waitid"},
    {SYS_recvfrom, "recvfrom"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_sendto, "sendto"},
    {SYS_sendmsg, "sendmsg"},
    {SYS_accept, "accept"},
    {SYS_accept4, "accept4"},
    {SYS_connect, "connect"},
    {SYS_openat, "openat"},
    {SYS_fsync, "fsync"},
    {SYS_fdatasync, "fdatasync"},
    {SYS_flock, "flock"},
    {SYS_fcntl, "fcntl"},
    {SYS_ioctl, "ioctl"},
    {SYS_mmap, "mmap"},
    {SYS_munmap, "munmap"},
    {SYS_rt_sigtimedwait, "rt_sigtimedwait"},
    {SYS_rt_sigsuspend, "rt_sigsuspend"},
    {SYS_pread64, "pread64"},
    {SYS_pwrite64, "pwrite64"},
    {SYS_getdents64, "getdents64"},
    {SYS_statx, "statx"},
    {SYS_newfstatat, "newfstatat"},
#if defined(__x86_64__)
    {SYS_poll, "poll"},
    {SYS_select, "select"},
    {SYS_epoll_wait, "epoll_wait"},
    {SYS_pause, "pause"},
    {SYS_open, "open"},
    {SYS_stat, "stat"},
#endif
};

std::string ReadProc(const std::string& path, size_t bytes_max = 8'192) {
  std::string content;
  common::ReadSmallFile(path, &content, bytes_max);
  return content;
}

std::string CallName(const std::string& syscall_file) {
  int64_t number = -1;  // "running", or -1: in no call
  const std::string first = syscall_file.substr(0, syscall_file.find_first_of(" \n"));
  if (!absl::SimpleAtoi(first, &number) || number < 0) return "";
  for (const auto& [known, name] : kCallNames) {
    if (known == number) return name;
  }
  return common::StrCat("call ", number);
}

bool IsWait(const std::string& call) { return call == "wait4" || call == "waitid"; }

ThreadFacts ReadThread(const std::string& task, pid_t id) {
  ThreadFacts facts;
  facts.id = id;
  const std::string stat = ReadProc(task + "/stat");
  // The name is in parentheses and may hold any byte, parentheses too.
  const size_t begin = stat.find('(');
  const size_t end = stat.rfind(')');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return facts;
  facts.name = common::Printable(stat.substr(begin + 1, end - begin - 1));
  const std::vector<std::string> fields =
      absl::StrSplit(stat.substr(std::min(end + 2, stat.size())), ' ');
  if (!fields[0].empty()) facts.state = fields[0][0];
  uint64_t user = 0, system = 0;
  if (fields.size() > 12 && absl::SimpleAtoi(fields[11], &user) &&
      absl::SimpleAtoi(fields[12], &system)) {
    facts.cpu_seconds = static_cast<double>(user + system) /
                        static_cast<double>(std::max(1L, sysconf(_SC_CLK_TCK)));
  }
  facts.call = CallName(ReadProc(task + "/syscall"));
  facts.place = common::Printable(ReadProc(task + "/wchan"));
  if (facts.place == "0") facts.place.clear();
  return facts;
}

std::string TaskDirectory(pid_t process) { return common::StrCat("/proc/", process, "/task"); }

std::vector<pid_t> ThreadIds(pid_t process) {
  std::vector<pid_t> ids;
  DIR* directory = opendir(TaskDirectory(process).c_str());
  if (directory == nullptr) return ids;
  while (const dirent* entry = readdir(directory)) {
    if (const int id = std::atoi(entry->d_name); id > 0) ids.push_back(id);
  }
  closedir(directory);
  std::sort(ids.begin(), ids.end(), [process](pid_t a, pid_t b) {
    return std::pair(a != process, a) < std::pair(b != process, b);
  });
  return ids;
}

std::string ProgramOf(pid_t process) {
  char target[4'096];
  const ssize_t size =
      readlink(common::StrCat("/proc/", process, "/exe").c_str(), target, sizeof target);
  const std::string path(target, size > 0 ? static_cast<size_t>(size) : 0);
  return common::Printable(path.substr(path.rfind('/') + 1));
}

}  // namespace

pid_t WorkingProcess(pid_t rank) {
  pid_t process = rank;
  for (size_t depth = 0; depth < kChainMax; ++depth) {
    const std::string task = common::StrCat(TaskDirectory(process), "/", process);
    const std::string children = ReadProc(task + "/children");
    const pid_t child = std::atoi(children.c_str());
    if (child <= 0 || !IsWait(CallName(ReadProc(task + "/syscall")))) return process;
    process = child;
  }
  return process;
}

ProcessFacts ReadProcessFacts(pid_t process) {
  ProcessFacts facts;
  facts.pid = process;
  facts.program = ProgramOf(process);
  facts.is_python =
      facts.program.starts_with("python") ||
      ReadProc(common::StrCat("/proc/", process, "/maps"), kMapBytesMax).find("/libpython") !=
          std::string::npos;
  const std::vector<pid_t> ids = ThreadIds(process);
  facts.thread_count = ids.size();
  for (size_t i = 0; i < std::min(ids.size(), kThreadsTold); ++i) {
    facts.threads.push_back(
        ReadThread(common::StrCat(TaskDirectory(process), "/", ids[i]), ids[i]));
  }
  return facts;
}

std::string DoingText(const ThreadFacts& thread) {
  const std::string in = thread.call.empty() ? thread.place : thread.call;
  const std::string where = in.empty() ? "" : common::StrCat(" in ", in);
  switch (thread.state) {
    case 'R':
      return "computes";
    case 'D':
      return common::StrCat("is stuck in the kernel",
                            thread.place.empty() ? where : common::StrCat(" in ", thread.place));
    case 'T':
      return "is stopped by a signal";
    case 't':
      return "is stopped by a debugger";
    case 'Z':
    case 'X':
      return "has ended";
    default:
      return common::StrCat("waits", where);
  }
}

std::map<pid_t, pid_t> ThreadsByOwnNumber(pid_t process) {
  std::map<pid_t, pid_t> threads;
  for (const pid_t id : ThreadIds(process)) {
    const std::string status = ReadProc(common::StrCat(TaskDirectory(process), "/", id, "/status"));
    const size_t line = status.find("\nNSpid:");
    const size_t end = line == std::string::npos ? line : status.find('\n', line + 1);
    if (end == std::string::npos) continue;
    const size_t last = status.find_last_of(" \t:", end - 1);
    threads[std::atoi(status.c_str() + last + 1)] = id;
  }
  return threads;
}

}  // namespace muster::worker
