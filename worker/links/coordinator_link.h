// The control stream: dials the cluster's coordinators in turn until the one that leads answers, redials
// indefinitely with jitter, passes messages to the control loop, sends the messages it is given. Lives on
// the control loop's thread; gRPC's threads only post into the loop's mailbox.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/v1/worker_service.pb.h"
#include "worker/base/mailbox.h"
#include "worker/links/head_rounds.h"
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

  // Asked before each dial.
  struct Where {
    std::function<std::vector<std::string>()> heads;  // addresses, at least one
    std::function<Route(const std::string& address)> route;
  };

  CoordinatorLink(Where where, Mailbox* loop, Callbacks callbacks, uint64_t jitter_seed);
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
  // The coordinator has registered this worker, so it leads.
  void Confirm();
  // The address that was dialed last.
  const std::string& Address() const { return dialed_.endpoint; }
  // Stops dialing. Blocks until the stream is gone.
  void Shutdown();

 private:
  struct Connection;  // keep gRPC out of this header
  struct Stream;

  std::shared_ptr<Connection> ConnectionTo(const Route& route, bool has_several) const;
  void OnDone(uint64_t generation, HeadRounds::End end, const std::string& reason);
  void NoteEnd(HeadRounds::End end, const std::string& reason);
  void Note(const std::string& line);

  const Where where_;
  Route dialed_;  // last
  Mailbox* const loop_;
  const Callbacks callbacks_;
  HeadRounds rounds_;
  std::shared_ptr<Stream> stream_;
  // Connections to coordinators that stand by, by address, until one leads: asking again needs no handshake.
  std::map<std::string, std::shared_ptr<Connection>> standbys_;
  uint64_t generation_ = 0;  // of the newest stream; messages from older ones are dropped
  int64_t next_dial_ms_ = 0;
  bool closing_ = false;
  bool is_renewing_ = false;
  bool is_reset_ = false;
  std::map<std::string, std::string> last_notes_;  // by address
};

}  // namespace muster::worker
