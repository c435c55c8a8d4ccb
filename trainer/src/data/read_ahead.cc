// The queue between workers and loop; see read_ahead.h.
#include "data/read_ahead.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <pthread.h>

namespace muster {
namespace {

// Makes operators in a worker single-threaded: the cores are for the training thread, and every
// thread that runs a parallel operator would get its own team of OpenMP threads.
// at::set_num_threads would apply to the whole process, so this calls OpenMP directly, by dlsym,
// because LibTorch ships its own copy and the SDK does not link one.
void use_one_core() {
  at::internal::lazy_init_num_threads();
  using SetThreads = void (*)(int);
  if (const auto set = reinterpret_cast<SetThreads>(::dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) {
    set(1);
  }
}

}  // namespace

ReadAhead::ReadAhead(const BatchMaker& maker, int workers, int64_t capacity)
    : maker_(maker), capacity_(capacity), slots_(static_cast<size_t>(capacity)) {
  try {
    for (int worker = 0; worker < workers; ++worker) {
      threads_.emplace_back([this, worker] { work(worker); });
    }
  } catch (...) {  // cannot start more threads: the running ones must not outlive this
    stop();
    throw;
  }
}

ReadAhead::~ReadAhead() { stop(); }

void ReadAhead::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  room_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

std::optional<ReadyStep> ReadAhead::take() {
  std::unique_lock lock(mutex_);
  std::optional<ReadyStep>& slot = slots_[static_cast<size_t>(taken_ % capacity_)];
  ready_.wait(lock, [&] { return slot.has_value() || (end_ && taken_ >= *end_); });
  if (!slot) return std::nullopt;
  std::optional<ReadyStep> ready = std::move(slot);
  slot.reset();
  ++taken_;
  lock.unlock();
  room_.notify_one();
  return ready;
}

std::optional<Step> ReadAhead::next_step(int64_t& number) {
  const std::lock_guard plan_lock(plan_mutex_);
  if (plan_ended_) return std::nullopt;
  {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return stopping_ || planned_ < taken_ + capacity_; });
    if (stopping_) return std::nullopt;
  }
  std::exception_ptr error;
  std::optional<Step> step = maker_.plan(error);
  number = planned_;
  if (step) {
    ++planned_;
    return step;
  }
  plan_ended_ = true;
  if (error) put(planned_++, ReadyStep{.error = error});
  {
    const std::lock_guard lock(mutex_);
    end_ = planned_;
  }
  ready_.notify_one();
  return std::nullopt;
}

void ReadAhead::put(int64_t number, ReadyStep ready) {
  bool awaited = false;
  {
    const std::lock_guard lock(mutex_);
    slots_[static_cast<size_t>(number % capacity_)] = std::move(ready);
    awaited = number == taken_;
  }
  if (awaited) ready_.notify_one();
}

void ReadAhead::work(int worker) {
  ::pthread_setname_np(::pthread_self(), "muster-data");
  use_one_core();
  int64_t number = 0;
  while (std::optional<Step> step = next_step(number)) {
    put(number, maker_.make(std::move(*step), worker));
  }
}

}  // namespace muster
