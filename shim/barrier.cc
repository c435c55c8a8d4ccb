#include "shim/barrier.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "common/kernel/process.h"

namespace muster::shim {
namespace {

constexpr int64_t kWaitMicros = 60'000'000;
constexpr int kPauseMs = 1;

int CountIn(const char* directory) {
  DIR* const listing = opendir(directory);
  if (listing == nullptr) return -1;
  int count = 0;
  while (const dirent* entry = readdir(listing)) count += entry->d_name[0] != '.';
  closedir(listing);
  return count;
}

int NotMet(const char* what) {
  std::fprintf(stderr, "the containers of the attempt do not meet: %s\n", what);
  return 1;
}

}  // namespace

int WaitAtBarrier(const char* directory, int count) {
  const std::string name = std::string(directory) + "/" + std::to_string(getpid());
  const int fd = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return NotMet(std::strerror(errno));
  close(fd);
  for (const int64_t end_us = common::MonotonicMicros() + kWaitMicros;
       CountIn(directory) < count;) {
    if (common::MonotonicMicros() > end_us) return NotMet("another one did not come within 60 s");
    poll(nullptr, 0, kPauseMs);
  }
  return 0;
}

}  // namespace muster::shim
