// A few threads for work that may wait for a disk: reading logs, metrics and finished jobs,
// hashing, deleting. gRPC's threads and the control loop never wait; they post here.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

namespace muster::coordinator {

// The calling thread gets a processor after the others of the daemon, from 1 to 19: for what people
// look at, which may come a moment later than what jobs need.
void YieldBy(int niceness);

class WorkPool {
 public:
  // A pool with a niceness yields to the other threads where processors are few.
  explicit WorkPool(int threads, int niceness = 0);
  ~WorkPool() { Stop(); }

  // Any thread; never blocks. Dropped after Stop.
  void Post(std::function<void()> work);
  void PostAfter(std::chrono::milliseconds delay, std::function<void()> work);
  // Finishes what is due now, drops what is delayed.
  void Stop();

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Item {
    Time due;
    uint64_t number = 0;  // equal times: in order of posting
    std::function<void()> work;
    bool operator<(const Item& other) const {
      return due != other.due ? due > other.due : number > other.number;
    }
  };
  void Run(int niceness);

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::priority_queue<Item> items_;
  uint64_t next_number_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace muster::coordinator
