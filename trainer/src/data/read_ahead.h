// Worker threads that build batches ahead of the loop: a bounded queue, delivered in order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data/batch_maker.h"

namespace muster {

// Lives for one pass. The destructor stops and joins the threads; it waits only for batches being
// built.
class ReadAhead {
 public:
  // At most `capacity` batches are ready or being built.
  ReadAhead(const BatchMaker& maker, int workers, int64_t capacity);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Waits for the next step's batches or error. nullopt after the last step. Training thread.
  std::optional<ReadyStep> take();

 private:
  void work(int worker);
  // Waits for a free slot and plans the next step. nullopt: no more steps.
  std::optional<Step> next_step(int64_t& number);
  void put(int64_t number, ReadyStep ready);
  void stop();

  const BatchMaker& maker_;
  const int64_t capacity_;

  // Held while planning, so that steps are planned (a stream is read) in order. Taken before
  // mutex_.
  std::mutex plan_mutex_;
  int64_t planned_ = 0;      // guarded by plan_mutex_
  bool plan_ended_ = false;  // guarded by plan_mutex_

  std::mutex mutex_;
  std::condition_variable room_;                 // for workers: the loop took a batch, or stop
  std::condition_variable ready_;                // for the loop: the next batch is ready
  std::vector<std::optional<ReadyStep>> slots_;  // step n is in slot n % capacity
  int64_t taken_ = 0;
  std::optional<int64_t> end_;  // total number of steps, once known
  bool stopping_ = false;

  std::vector<std::thread> threads_;  // last: they use the members above
};

}  // namespace muster
