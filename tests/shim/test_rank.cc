// A rank for the shim's tests: does the one thing that its first argument names. No framework,
// starts in a millisecond.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
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
