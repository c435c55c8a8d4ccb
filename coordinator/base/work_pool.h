// A few threads for work that may wait for a disk: reading logs, metrics and finished jobs,
// hashing, deleting. gRPC's threads and the control loop never wait; they post here.
//
// Work for a person is posted with the person's name: owners take turns, no matter how much each has posted, and
// if there are several threads, no owner gets all of them. Work for people is posted in small pieces, so that
// others wait for one piece at most.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <queue>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/base/turn_queue.h"

namespace muster::coordinator {

// Lowers the priority of the calling thread below the daemon's other threads, by 1 to 19. For
// answers to people, which may come a moment later than what jobs need.
void YieldBy(int niceness);

class WorkPool {
 public:
  // A pool with a niceness yields to the other threads where processors are few.
  explicit WorkPool(int threads, int niceness = 0);
  ~WorkPool() { Stop(); }

  // Any thread; never blocks. Dropped after Stop. Without an owner it is the daemon's own work, which has every other
  // turn. The work of one owner begins in the order of posting.
  void Post(std::function<void()> work, const std::string& owner = {});
  void PostAfter(std::chrono::milliseconds delay, std::function<void()> work,
                 const std::string& owner = {});
  // Finishes the work that is due now, and drops delayed work.
  void Stop();

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Item {
    Time due;
    uint64_t number = 0;  // equal times: in order of posting
    std::function<void()> work;
    std::string owner;
    bool operator<(const Item& other) const {
      return due != other.due ? due > other.due : number > other.number;
    }
  };
  void Run(int niceness);
  // With the lock held: moves due work to the queue in which it waits for its owner's turn.
  void TakeDue();

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::priority_queue<Item> delayed_;
  uint64_t next_number_ = 0;
  TurnQueue<std::function<void()>> due_;
  std::map<std::string, int> running_;  // threads, by owner; none: absent
  bool stopping_ = false;
  const int of_one_;  // threads
  std::vector<std::thread> threads_;
};

}  // namespace muster::coordinator
