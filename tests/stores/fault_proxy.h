// A proxy before a server on loopback that does to each connection what the test has planned: answers in the server's
// place, or cuts, resets or stalls what the server answers.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/files/files.h"

namespace muster::testing {

struct Fault {
  std::string answer = {};           // not empty: sent in place of the server's, which is not asked
  uint64_t body_bytes = UINT64_MAX;  // of the server's answers, after the first one's head; then:
  enum class Then { kClose, kReset, kStall } then = Then::kClose;
  bool with_head = true;  // false: nothing of the answer is passed on
  uint64_t request_bytes =
      UINT64_MAX;  // of what the client sends; then both connections are closed
};

class FaultProxy {
 public:
  explicit FaultProxy(int server_port);
  ~FaultProxy();

  int port() const { return port_; }
  // Of the next connections, in this order; later ones have none. Those that are open are closed.
  void Plan(std::vector<Fault> faults);
  // Planned ones that have met no connection yet.
  size_t Left();
  // All connections so far.
  size_t Connections();

 private:
  struct Link {
    common::UniqueFd client;
    common::UniqueFd server;
    std::thread thread;
  };
  void Run(Link& link, const Fault& fault);
  void Pump(Link& link, const Fault& fault);
  bool PassOn(Link& link, const Fault& fault, const std::string& bytes, uint64_t* passed,
              std::string* head);

  const int server_port_;
  int port_ = 0;
  const common::UniqueFd listener_;  // after its port, which it sets
  std::atomic<bool> stops_ = false;
  std::mutex mutex_;  // guards what follows
  std::deque<Fault> planned_;
  std::deque<Link> links_;
  std::thread thread_;
};

}  // namespace muster::testing
