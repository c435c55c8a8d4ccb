#include "rendezvous/loop.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/kernel/process.h"

namespace muster::rendezvous {
namespace {

constexpr size_t kEventsPerTurn = 512;
constexpr int64_t kTickMs = 1'000;

}  // namespace

Loop::Loop() : epoll_(epoll_create1(EPOLL_CLOEXEC)), events_(kEventsPerTurn) {}

bool Loop::Watch(int fd, uint32_t events, Source* source) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = source;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void Loop::Change(int fd, uint32_t events, Source* source) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = source;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Loop::Forget(int fd, Source* source) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  std::erase(marked_, source);
  for (size_t i = 0; i < at_hand_; ++i) {
    if (events_[i].data.ptr == source) events_[i].data.ptr = nullptr;
  }
}

void Loop::Mark(Source* source) {
  if (!std::exchange(source->is_marked_, true)) marked_.push_back(source);
}

void Loop::Run(const std::function<void(int64_t)>& tick) {
  int64_t next_tick_ms = 0;
  while (is_running_) {
    const int64_t now_ms = common::MonotonicMicros() / 1000;
    if (now_ms >= next_tick_ms) {
      next_tick_in_ms_ = kTickMs;
      tick(now_ms);
      next_tick_ms = now_ms + next_tick_in_ms_;
    }
    const int wait_ms = static_cast<int>(std::clamp<int64_t>(next_tick_ms - now_ms, 0, kTickMs));
    const int count = epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()),
                                 marked_.empty() ? wait_ms : 0);
    at_hand_ = static_cast<size_t>(std::max(count, 0));
    for (size_t i = 0; i < at_hand_; ++i) {
      const epoll_event event = events_[i];
      if (event.data.ptr != nullptr) static_cast<Source*>(event.data.ptr)->OnEvents(event.events);
    }
    at_hand_ = 0;
    // One that is marked now belongs to the next turn.
    std::vector<Source*> marked = std::exchange(marked_, {});
    for (Source*& source : marked) source->is_marked_ = false;
    for (size_t i = 0; i < marked.size(); ++i) marked[i]->OnTurnEnd();
    retired_.clear();
  }
}

}  // namespace muster::rendezvous
