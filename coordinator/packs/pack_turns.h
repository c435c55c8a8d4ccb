// Where the writer of packs runs: its own thread, and pools for what waits. In tests: in simulated time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "coordinator/base/work_pool.h"
#include "coordinator/store_parts/store_queue.h"

namespace muster::coordinator {

class PackTurns {
 public:
  // kStore: for the object store, several at once. kState: for the state, one at a time, in the order of posting. kMerge:
  // for long work.
  enum class Pool { kStore, kState, kMerge };

  virtual ~PackTurns() = default;
  // Once, before all others: runs after the writer's tasks, and at the time that it returned last (NowMs; 0: none).
  virtual void Begin(std::function<int64_t()> after_tasks) = 0;
  // Any thread; never blocks. The writer's tasks run one at a time, in the order of posting. Dropped after Stop.
  virtual void Post(std::function<void()> task) = 0;
  virtual void PostTo(Pool pool, std::function<void()> task,
                      std::chrono::milliseconds after = {}) = 0;
  // Of a steady clock.
  virtual int64_t NowMs() const = 0;
  // Ends all threads, after the tasks that they are at.
  virtual void Stop() = 0;
};

class PackThreads final : public PackTurns {
 public:
  explicit PackThreads(int of_store) : store_(of_store), state_(1), merge_(1) {}
  ~PackThreads() override { Stop(); }
  void Begin(std::function<int64_t()> after_tasks) override;
  void Post(std::function<void()> task) override { queue_.Push(std::move(task)); }
  void PostTo(Pool pool, std::function<void()> task, std::chrono::milliseconds after) override;
  int64_t NowMs() const override { return SteadyMs(); }
  void Stop() override;

 private:
  void Run();

  StoreQueue<std::function<void()>> queue_{"packs"};
  std::function<int64_t()> after_tasks_;
  WorkPool store_;
  WorkPool state_;
  WorkPool merge_;
  std::thread thread_;
};

}  // namespace muster::coordinator
