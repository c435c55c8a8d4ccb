// posix_spawn, a pidfd for the deadline, and a file for the output.
#include "support/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

extern char** environ;

namespace muster {
namespace {

std::vector<std::string> merged(const std::map<std::string, std::string>& environment) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!environment.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  for (const auto& [name, value] : environment) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& argv,
                           const std::map<std::string, std::string>& environment) {
  char path[] = "/tmp/muster-output-XXXXXX";
  const int fd = ::mkstemp(path);
  output_path_ = path;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fd, 1);
  posix_spawn_file_actions_adddup2(&actions, fd, 2);
  posix_spawn_file_actions_addclose(&actions, fd);
  const std::vector<std::string> variables = merged(environment);
  const int error = ::posix_spawnp(&pid_, argv[0].c_str(), &actions, nullptr, pointers(argv).data(),
                                   pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  ::close(fd);
  if (error != 0) throw std::runtime_error("cannot start " + argv[0]);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), output_path_(std::move(other.output_path_)) {}

ChildProcess::~ChildProcess() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  ::unlink(output_path_.c_str());
}

ChildResult ChildProcess::wait(std::chrono::steady_clock::time_point deadline) {
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  pollfd ended{pidfd, POLLIN, 0};
  const bool in_time = ::poll(&ended, 1, static_cast<int>(std::max<int64_t>(left.count(), 0))) == 1;
  ::close(pidfd);
  if (!in_time) ::kill(pid_, SIGKILL);
  int status = 0;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  ChildResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  std::ostringstream text;
  text << std::ifstream(output_path_).rdbuf();
  result.output = text.str();
  if (!in_time) result.output += "\n(killed by the test at its deadline)";
  ::unlink(output_path_.c_str());
  return result;
}

}  // namespace muster
