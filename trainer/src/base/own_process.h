// Tells a forked child from the process that made an object: what belongs to the ranks (their
// connections, their collectives) is the parent's.
#pragma once

#include <unistd.h>

namespace muster {

class OwnProcess {
 public:
  bool is_child() const { return ::getpid() != made_by_; }

 private:
  pid_t made_by_ = ::getpid();
};

}  // namespace muster
