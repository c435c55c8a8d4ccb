// While it lives, this process cannot open another file.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace muster::coordinator {

class NoFreeDescriptors {
 public:
  NoFreeDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(next);
    // `next` is the lowest free number; open ones above it do not matter.
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(next);
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~NoFreeDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace muster::coordinator
