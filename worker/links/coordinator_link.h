// The control stream: redials indefinitely with full jitter, passes messages to the control loop,
// sends the messages it is given. Lives on the control loop's thread; gRPC's threads only post into
// the loop's mailbox.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "muster/v1/worker_service.pb.h"
#include "worker/base/mailbox.h"
#include "worker/links/route.h"

namespace muster::worker {

class CoordinatorLink {
 public:
  // Called on the control loop's thread.
  struct Callbacks {
    std::function<void()> up;  // the stream is open
    std::function<void(v1::CoordinatorMessage)> message;
    std::function<void()> down;
    std::function<void(const std::string& line)> note;  // for the log; a repeated reason only once
  };

  // `route`: asked before each dial.
  CoordinatorLink(std::function<Route()> route, Mailbox* loop, Callbacks callbacks,
                  uint64_t jitter_seed);
  ~CoordinatorLink();

  // Dials if it is due. Call at startup and when NextDialMs has passed.
  void MaybeDial(int64_t now_ms);
  // When to call MaybeDial, or nullopt while a stream exists.
  std::optional<int64_t> NextDialMs() const;
  void Send(v1::WorkerMessage message);
  // Closes the stream; redials after a pause.
  void Reset(const std::string& reason);
  // Closes the stream and redials at once, because the route has changed.
  void Renew();
  // The coordinator answered: reset the backoff.
  void Confirm() { failures_ = 0; }
  // Stops dialing. Blocks until the stream is gone.
  void Shutdown();

 private:
  struct Stream;  // keeps gRPC out of this header

  void OnDone(uint64_t generation, const std::string& reason);
  void Note(const std::string& line);

  const std::function<Route()> route_;
  Route dialed_;  // last
  Mailbox* const loop_;
  const Callbacks callbacks_;
  std::mt19937_64 jitter_;
  std::shared_ptr<Stream> stream_;
  uint64_t generation_ = 0;  // of the newest stream; messages from older ones are dropped
  int failures_ = 0;
  int64_t next_dial_ms_ = 0;
  bool closing_ = false;
  bool is_renewing_ = false;
  std::string last_note_;
};

}  // namespace muster::worker
