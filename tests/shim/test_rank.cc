// A rank for the shim's tests: does the one thing that its first argument names. No framework,
// starts in a millisecond.
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

void Write(int fd, const std::string& bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t count = write(fd, bytes.data() + at, bytes.size() - at);
    if (count > 0) at += static_cast<size_t>(count);
  }
}

// Numbered lines of 100 bytes, each a separate write(2), to stdout or to a plain file.
int Lines(long count, const char* path) {
  const int fd = path == nullptr ? STDOUT_FILENO : open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  char line[101];
  for (long i = 0; i < count; ++i) {
    std::snprintf(line, sizeof line, "%-99ld\n", i);
    Write(fd, std::string(line, 100));
  }
  return 0;
}

// All byte values, `count` times, on the given descriptor.
int Binary(int fd, int count) {
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  for (int i = 0; i < count; ++i) Write(fd, all);
  return 0;
}

void WritePid(const char* path) {
  const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
  const std::string line = std::to_string(getpid()) + "\n";
  Write(fd, line);
  close(fd);
}

[[noreturn]] void SleepForEver() {
  while (true) pause();
}

// Leaves a grandchild in a separate session that ignores SIGTERM; with `clean` also without any
// environment variables.
int Escape(const char* path, bool clean) {
  if (fork() == 0) {
    setsid();
    if (fork() == 0) {
      std::signal(SIGTERM, SIG_IGN);
      WritePid(path);
      if (!clean) SleepForEver();
      char* argv[] = {const_cast<char*>("/bin/sleep"), const_cast<char*>("1000"), nullptr};
      char* env[] = {nullptr};
      execve("/bin/sleep", argv, env);
    }
    _exit(0);
  }
  return 0;
}

// A process that keeps changing its pid: each generation forks the next and exits.
[[noreturn]] void RunAway() {
  setsid();
  while (true) {
    if (fork() > 0) _exit(0);
  }
}

int Listen(int port, bool reuse) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const int one = 1;
  if (reuse) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return errno;
  return listen(fd, 8) == 0 ? 0 : errno;
}

// Touches memory until it is stopped.
[[noreturn]] void Eat() {
  while (true) std::memset(std::malloc(1 << 20), 1, 1 << 20);
}

int g_usr1 = 0;

int CountSignals() {
  std::signal(SIGUSR1, [](int) { ++g_usr1; });
  Write(STDOUT_FILENO, "ready\n");
  while (g_usr1 == 0) pause();
  Write(STDOUT_FILENO, "usr1\n");
  return 0;
}

void Tell(const char* name, bool failed) {
  const char* how = !failed           ? "WORKS"
                    : errno == EPERM  ? "EPERM"
                    : errno == ENOSYS ? "ENOSYS"
                                      : "other";
  Write(STDOUT_FILENO, std::string(name) + " " + how + "\n");
}

int TakeBack() {
  Tell("setuid", setuid(0) != 0);
  Tell("setgid", setgid(0) != 0);
  Tell("setgroups", setgroups(0, nullptr) != 0);
  Tell("kill", kill(getppid(), 0) != 0);
  Tell("ptrace", ptrace(PTRACE_SEIZE, getppid(), nullptr, nullptr) != 0);
  return 0;
}

int Reach(pid_t other) {
  const std::string environ = "/proc/" + std::to_string(other) + "/environ";
  Tell("kill", kill(other, 0) != 0);
  Tell("ptrace", ptrace(PTRACE_SEIZE, other, nullptr, nullptr) != 0);
  Tell("environ", open(environ.c_str(), O_RDONLY) < 0);
  return 0;
}

// Arguments without effect, in case a call gets through.
int TryForbidden() {
  const struct {
    const char* name;
    long number;
    long first;
  } calls[] = {{"mount", SYS_mount, 0},
               {"umount2", SYS_umount2, 0},
               {"pivot_root", SYS_pivot_root, 0},
               {"chroot", SYS_chroot, 0},
               {"open_tree", SYS_open_tree, -1},
               {"move_mount", SYS_move_mount, -1},
               {"fsopen", SYS_fsopen, 0},
               {"mount_setattr", SYS_mount_setattr, -1},
               {"setns", SYS_setns, -1},
               {"open_by_handle_at", SYS_open_by_handle_at, -1},
               {"kexec_load", SYS_kexec_load, 0},
               {"init_module", SYS_init_module, 0},
               {"finit_module", SYS_finit_module, -1},
               {"bpf", SYS_bpf, -1},
               {"perf_event_open", SYS_perf_event_open, 0},
               {"userfaultfd", SYS_userfaultfd, -1},
               {"keyctl", SYS_keyctl, -1},
               {"io_uring_setup", SYS_io_uring_setup, 0},
               {"reboot", SYS_reboot, 0},
               {"swapon", SYS_swapon, 0},
               {"acct", SYS_acct, -1},
               {"clock_settime", SYS_clock_settime, -1},
               {"unshare user", SYS_unshare, CLONE_NEWUSER},
               {"unshare mounts", SYS_unshare, CLONE_NEWNS},
               {"clone user", SYS_clone, CLONE_NEWUSER | SIGCHLD},
               {"clone3", SYS_clone3, 0}};
  for (const auto& call : calls) {
    errno = 0;
    const long result = syscall(call.number, call.first, 0, 0, 0, 0, 0);
    if (call.number == SYS_clone && result == 0) _exit(0);
    Tell(call.name, result < 0);
  }
  // A relative of theirs that programs do use.
  const pid_t child = fork();
  if (child == 0) _exit(unshare(CLONE_FILES) == 0 ? 0 : 1);
  int status = 1;
  waitpid(child, &status, 0);
  const int memory = memfd_create("x", MFD_CLOEXEC);
  if (status == 0 && memory >= 0 && ftruncate(memory, 4096) == 0) {
    Write(STDOUT_FILENO, "rest works\n");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "lines") return Lines(std::atol(argv[2]), argc > 3 ? argv[3] : nullptr);
  if (what == "binary") return Binary(std::atoi(argv[2]), std::atoi(argv[3]));
  if (what == "exit") return std::atoi(argv[2]);
  if (what == "raise") return std::raise(std::atoi(argv[2]));
  if (what == "sleep") SleepForEver();
  if (what == "ignore-term") {
    std::signal(SIGTERM, SIG_IGN);
    Write(STDOUT_FILENO, "ready\n");
    SleepForEver();
  }
  if (what == "term-exits-0") {
    std::signal(SIGTERM, [](int) { _exit(0); });
    Write(STDOUT_FILENO, "ready\n");
    SleepForEver();
  }
  if (what == "escape") return Escape(argv[2], false);
  if (what == "escape-and-sleep") {
    Escape(argv[2], argc > 3);
    SleepForEver();
  }
  if (what == "run-away") {
    if (fork() == 0) RunAway();
    SleepForEver();
  }
  if (what == "listen") return Listen(std::atoi(argv[2]), std::strcmp(argv[3], "reuse") == 0);
  if (what == "eat") Eat();
  if (what == "take-back") return TakeBack();
  if (what == "reach") return Reach(std::atoi(argv[2]));
  if (what == "forbidden") return TryForbidden();
  if (what == "usr1") return CountSignals();
  if (what == "say-then-die") {
    Write(STDERR_FILENO, "last words\n");
    return std::raise(SIGKILL);
  }
  if (what == "descriptors") {
    int open_count = 0;
    for (int fd = 0; fd < 1024; ++fd) open_count += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    return open_count;
  }
  if (what == "lines-then-sleep") {
    Lines(std::atol(argv[2]), nullptr);
    SleepForEver();
  }
  return 99;
}
