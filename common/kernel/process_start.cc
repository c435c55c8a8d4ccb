#include "common/kernel/process_start.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

extern char** environ;

namespace muster::common {
namespace {

constexpr mode_t kCreatedMode = 0600;

class Attributes {
 public:
  explicit Attributes(ChildSetup::Apart apart) {
    posix_spawnattr_init(&attributes_);
    const int leads =
        apart == ChildSetup::Apart::kSession ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP;
    posix_spawnattr_setflags(
        &attributes_, static_cast<short>(leads | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK));
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setsigmask(&attributes_, &none);
  }
  ~Attributes() { posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

// What the child does with its descriptors and directory before it becomes the program.
class Actions {
 public:
  Actions() { posix_spawn_file_actions_init(&actions_); }
  ~Actions() { posix_spawn_file_actions_destroy(&actions_); }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;

  // False with errno set.
  bool Add(const ChildSetup& start) {
    int highest = STDERR_FILENO;
    for (const ChildFd& fd : start.fds) highest = std::max(highest, fd.as);
    for (const ChildFd& fd : start.fds)
      if (fd.ours >= 0 && !Give(fd, highest)) return false;
    for (const ChildFd& fd : start.fds) {
      if (fd.file.empty()) continue;
      posix_spawn_file_actions_addopen(&actions_, fd.as, fd.file.c_str(), fd.flags, kCreatedMode);
    }
    for (const ChildFd& fd : start.fds)
      if (fd.same_as >= 0) posix_spawn_file_actions_adddup2(&actions_, fd.same_as, fd.as);
    if (start.closes_rest) posix_spawn_file_actions_addclosefrom_np(&actions_, highest + 1);
    if (!start.directory.empty())
      posix_spawn_file_actions_addchdir_np(&actions_, start.directory.c_str());
    return true;
  }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  // A descriptor of ours whose number is one of the child's could be overwritten before its turn.
  bool Give(const ChildFd& fd, int highest) {
    int from = fd.ours;
    if (from <= highest && from != fd.as) {
      moved_.emplace_back(fcntl(from, F_DUPFD_CLOEXEC, highest + 1));
      if (!moved_.back().valid()) return false;
      from = moved_.back().get();
    }
    posix_spawn_file_actions_adddup2(&actions_, from, fd.as);
    return true;
  }

  posix_spawn_file_actions_t actions_;
  std::vector<UniqueFd> moved_;
};

// For posix_spawn; the vector keeps owning the strings.
std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

ChildFd NoInput() { return {.as = STDIN_FILENO, .file = "/dev/null", .flags = O_RDONLY}; }

pid_t StartProcess(const ChildSetup& start) {
  Actions actions;
  if (!actions.Add(start)) return -errno;
  const Attributes attributes(start.apart);
  const std::vector<char*> argv = Pointers(start.argv);
  const std::vector<char*> env = start.env ? Pointers(*start.env) : std::vector<char*>();
  char* const* variables = start.env ? env.data() : environ;
  const auto spawn = start.is_searched ? posix_spawnp : posix_spawn;
  pid_t pid = -1;
  const int error =
      spawn(&pid, start.program.c_str(), actions.get(), attributes.get(), argv.data(), variables);
  return error == 0 ? pid : -error;
}

bool Pipe::Open(int flags) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | flags) != 0) return false;
  from = UniqueFd(ends[0]);
  to = UniqueFd(ends[1]);
  return true;
}

}  // namespace muster::common
