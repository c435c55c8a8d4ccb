// What the root says to relays and to the ranks of its own node. A relay may keep a value that has changed: then all else
// waits, in order, until it has dropped it. So no rank learns of a change, be it by way of other keys or outside the
// store, and then still finds the old value. The loop's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "rendezvous/clients.h"
#include "rendezvous/frames.h"
#include "rendezvous/link.h"
#include "rendezvous/values.h"

namespace muster::rendezvous {

class Outbox {
 public:
  // limit: rendezvous: milliseconds that answers wait for a node that keeps a value that has changed; they are sent without it
  static constexpr int64_t kWaitsMs = 3'000;

  // `link_of`: null if it is gone.
  Outbox(Clients& clients, std::function<Link*(LinkId)> link_of)
      : clients_(clients), link_of_(std::move(link_of)) {}

  // Where to append a frame for that link. Ignored if it is gone.
  std::string* To(LinkId link);
  void Answer(ClientId client, std::string_view answer);
  // What was to be answered to it is not.
  void Forget(ClientId client);

  bool IsWaiting() const { return waits_for_ > 0; }
  // The node may be given a value to keep. Not while anything waits: what tells that it is outdated would overtake it.
  bool MayHold(LinkId link) const;
  void Outdate(LinkId link, std::string_view key);
  void Dropped(LinkId link);
  void Forget(LinkId link);
  void Tick(int64_t now_ms);

 private:
  struct Held {
    LinkId link = 0;  // 0: an answer to `client`
    ClientId client = 0;
    std::string bytes;
  };
  void Send();

  Clients& clients_;
  const std::function<Link*(LinkId)> link_of_;
  // Values that a node has not dropped yet, in the order in which it was told.
  struct Owed {
    size_t late = 0;  // of them those that no one waits for any more, the first ones
    size_t awaited = 0;
  };
  absl::flat_hash_map<LinkId, Owed> owed_;
  size_t waits_for_ = 0;  // of all links
  std::deque<Held> held_;
  std::string nowhere_;
  // The first tick at which nothing had been dropped since; 0: something was since the last tick.
  int64_t quiet_since_ms_ = 0;
};

}  // namespace muster::rendezvous
