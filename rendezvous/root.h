// The store of an attempt, on the node of rank 0: it answers the ranks of its own node, and the relays of the others.
// The loop's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "rendezvous/clients.h"
#include "rendezvous/link.h"
#include "rendezvous/loop.h"
#include "rendezvous/outbox.h"
#include "rendezvous/stream.h"
#include "rendezvous/values.h"

namespace muster::rendezvous {

class Root final : public Backend {
 public:
  struct Setup {
    common::UniqueFd network;  // bound; relays connect to it. Not valid: the attempt has one node
    std::string secret;
    uint32_t nodes = 1;
    uint32_t world = 1;
  };
  Root(Loop& loop, Setup setup, common::RankAtStore* status);
  ~Root() override;

  Clients& clients() { return clients_; }
  void Tick(int64_t now_ms);

  void Ask(ClientId client, const Request& request, std::string_view raw) override;
  void Abandon(ClientId client) override;

 private:
  struct Peer {
    std::unique_ptr<Link> link;
    int64_t since_ms = 0;
    Clients::Counts counts;
  };

  void Accept(common::UniqueFd fd);
  void OnFrame(LinkId id, Frame kind, std::string_view fields);
  void OnAsk(LinkId id, FrameReader fields);
  void OnArrive(LinkId id, FrameReader fields);
  void OnClosed(LinkId id, std::string_view why);
  // The node may keep its value.
  bool MayHold(LinkId id, std::string_view key) const;
  void TellThere(LinkId id, std::string_view key);
  void Deliver();
  void EndHopelessWaits();
  Link* LinkOf(LinkId id);

  Loop& loop_;
  Setup setup_;
  Values values_;
  Clients clients_;
  Outbox outbox_;
  std::unique_ptr<Acceptor> acceptor_;
  absl::flat_hash_map<LinkId, Peer> peers_;
  std::vector<std::unique_ptr<Link>>
      closed_;  // destroyed at the next tick: their callbacks may be running
  LinkId last_link_ = 0;
  int64_t now_ms_ = 0;
  Request request_;
};

}  // namespace muster::rendezvous
