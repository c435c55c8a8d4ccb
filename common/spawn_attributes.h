// How a child of ours begins, for posix_spawn: apart from us, with the default action for every
// signal and none blocked, whatever our threads have set. Any thread.
#pragma once

#include <spawn.h>

#include <csignal>

namespace muster::common {

class SpawnAttributes {
 public:
  // `apart`: POSIX_SPAWN_SETSID for a session of its own, POSIX_SPAWN_SETPGROUP for a process group.
  explicit SpawnAttributes(short apart) {
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setflags(
        &attributes_, static_cast<short>(apart | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK));
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setsigmask(&attributes_, &none);
  }
  ~SpawnAttributes() { posix_spawnattr_destroy(&attributes_); }
  SpawnAttributes(const SpawnAttributes&) = delete;

  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

}  // namespace muster::common
