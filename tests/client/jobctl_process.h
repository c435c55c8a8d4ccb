// Runs the real jobctl binary as a process, with its output in pipes or on a terminal of a given
// size.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/client/fake_coordinator.h"
#include "tests/support/paths.h"

namespace muster::client {

struct Ended {
  int code = -1;
  std::string out;
  std::string err;
};

// Where and how jobctl runs.
struct Surroundings {
  std::string server;  // empty: none configured
  std::string config = "/nonexistent/config.yaml";
  winsize terminal = {};  // if it has rows, stdout is a terminal
  std::string cache = "/proc/none";
};

class Process {
 public:
  Process(const std::string& server, std::vector<std::string> words)
      : Process(Surroundings{.server = server}, std::move(words)) {}
  Process(const Surroundings& around, std::vector<std::string> words) {
    words.insert(words.begin(), TestBuild("bin/jobctl"));
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::vector<std::string> variables = {"PATH=/usr/bin:/bin", "HOME=/nonexistent",
                                          "SECRET_TOKEN=abc", "JOBCTL_CONFIG=" + around.config,
                                          "XDG_CACHE_HOME=" + around.cache};
    if (!around.server.empty()) variables.push_back("JOBCTL_SERVER=" + around.server);
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    environment.push_back(nullptr);
    int out[2], err[2];
    if (around.terminal.ws_row > 0) {
      EXPECT_EQ(openpty(&out[0], &out[1], nullptr, nullptr, &around.terminal), 0);
      for (const int fd : out) fcntl(fd, F_SETFD, FD_CLOEXEC);
    } else {
      EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    }
    EXPECT_EQ(pipe2(err, O_CLOEXEC), 0);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out[1], 1);
    posix_spawn_file_actions_adddup2(&files, err[1], 2);
    EXPECT_EQ(posix_spawn(&pid_, TestBuild("bin/jobctl").c_str(), &files, nullptr, argv.data(),
                          environment.data()),
              0);
    posix_spawn_file_actions_destroy(&files);
    close(out[1]);
    close(err[1]);
    fds_[0] = out[0];
    fds_[1] = err[0];
  }
  ~Process() {
    close(fds_[0]);
    close(fds_[1]);
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  Process(const Process&) = delete;
  void Signal(int number) { kill(pid_, number); }

  // Reads until stderr (or stdout) contains `text` `times` times; false at EOF.
  bool ReadUntil(const std::string& text) { return ReadUntil(1, text, 1); }
  bool ReadOutUntil(const std::string& text, int times = 1) { return ReadUntil(0, text, times); }
  const std::string& out() const { return texts_[0]; }
  Ended End() {
    while (ReadSome()) {
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status), texts_[0],
            texts_[1]};
  }

 private:
  bool ReadUntil(int stream, const std::string& text, int times) {
    const auto count = [&] {
      int found = 0;
      for (size_t at = 0; (at = texts_[stream].find(text, at)) != std::string::npos;
           at += text.size())
        ++found;
      return found;
    };
    while (count() < times) {
      if (!ReadSome()) return false;
    }
    return true;
  }
  bool ReadSome() {
    pollfd polled[2] = {{open_[0] ? fds_[0] : -1, POLLIN, 0}, {open_[1] ? fds_[1] : -1, POLLIN, 0}};
    if (!open_[0] && !open_[1]) return false;
    if (poll(polled, 2, 20'000) <= 0) return false;
    for (int i = 0; i < 2; ++i) {
      if (polled[i].revents == 0) continue;
      char buffer[65536];
      const ssize_t count = read(fds_[i], buffer, sizeof(buffer));
      if (count <= 0) open_[i] = false;
      if (count > 0) texts_[i].append(buffer, static_cast<size_t>(count));
    }
    return true;
  }

  pid_t pid_ = 0;
  int fds_[2] = {-1, -1};
  bool open_[2] = {true, true};
  std::string texts_[2];
};

inline Ended Jobctl(const FakeCoordinator& fake, std::vector<std::string> words) {
  return Process(fake.endpoint(), std::move(words)).End();
}

}  // namespace muster::client
