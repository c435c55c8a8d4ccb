// The event loop of muster-rendezvous: one thread, epoll.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/files/files.h"

namespace muster::rendezvous {

class Loop {
 public:
  // Something with a descriptor. It must be forgotten before it is destroyed.
  class Source {
   public:
    virtual ~Source() = default;
    virtual void OnEvents(uint32_t events) = 0;
    // Once at the end of a turn in which it was marked.
    virtual void OnTurnEnd() {}

   private:
    friend class Loop;
    bool is_marked_ = false;
  };

  Loop();
  // False: errno.
  bool Watch(int fd, uint32_t events, Source* source);
  void Change(int fd, uint32_t events, Source* source);
  void Forget(int fd, Source* source);
  // Calls its OnTurnEnd at the end of this turn.
  void Mark(Source* source);
  // Destroys it at the end of the turn: events of this turn may still name it.
  void Retire(std::unique_ptr<Source> source) { retired_.push_back(std::move(source)); }

  // Calls `tick` once a second, or sooner if that was asked for, until Stop().
  void Run(const std::function<void(int64_t now_ms)>& tick);
  void Stop() { is_running_ = false; }
  void TickIn(int64_t ms) { next_tick_in_ms_ = ms; }

 private:
  common::UniqueFd epoll_;
  std::vector<Source*> marked_;
  std::vector<std::unique_ptr<Source>> retired_;
  std::vector<epoll_event> events_;
  size_t at_hand_ = 0;  // of events_: this turn's
  bool is_running_ = true;
  int64_t next_tick_in_ms_ = 0;
};

}  // namespace muster::rendezvous
