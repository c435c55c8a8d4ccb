// A few threads for work that may wait for a disk: reading logs, metrics and finished jobs,
// hashing, deleting. gRPC's threads and the control loop never wait; they post here.
//
// Work for a person is posted with their name: those who wait take turns, however much each has posted, and no one
// gets all of several threads. So work for people comes in pieces; others wait for one piece at most.
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

// The calling thread gets a processor after the others of the daemon, from 1 to 19: for what people
// look at, which may come a moment later than what jobs need.
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
  // Finishes what is due now, drops what is delayed.
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
  // With the lock held: what is due waits for its owner's turn.
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
