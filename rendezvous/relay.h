// Answers the ranks of a node that does not have the store: from what it keeps of it, or by asking the root, over one
// connection. The loop's thread.
//
// What the root sees grows with nodes, not with ranks: a key is fetched once for a node, waits for it are one, and what
// ranks add to a key while an addition is under way goes there as one. A value is kept if it was set once; when that is
// over, the root answers no one until all that keep it have dropped it (outbox.h). While a write of a rank here is
// under way, its key is neither kept nor shared, so that a rank sees what it wrote.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "rendezvous/clients.h"
#include "rendezvous/key_map.h"
#include "rendezvous/link.h"
#include "rendezvous/loop.h"

namespace muster::rendezvous {

class Relay final : public Backend {
 public:
  struct Setup {
    std::string host;  // of the root: an IPv4 or IPv6 address
    uint16_t port = 0;
    std::string secret;
  };
  // limit: rendezvous: bytes of values that a node keeps; others are fetched again
  static constexpr size_t kKeptBytesMax = 128 << 20;

  Relay(Loop& loop, Setup setup, common::RankAtStore* status, std::function<void()> lost);
  ~Relay() override;

  Clients& clients() { return clients_; }
  void Tick(int64_t now_ms);

  void Ask(ClientId client, const Request& request, std::string_view raw) override;
  void Abandon(ClientId client) override;

 private:
  class Dial;
  // A get or multi-get of a client.
  struct Fetch {
    ClientId client = 0;
    std::vector<std::string> values;
    size_t left = 0;
  };
  struct Wanted {
    uint64_t fetch = 0;
    size_t index = 0;
  };
  // Requests under way, by number.
  struct Sent {
    enum class What {
      kForwarded,  // `client` gets the answer as it is
      kSharedGet,  // `key`, for all that want its value, in wanted_
      kGet,        // `key`, for `want`
      kAdditions,  // to `key`
      kArrivals    // at the barrier `key`
    } what = What::kForwarded;
    ClientId client = 0;
    std::string key = {};
    Wanted want = {};
    std::vector<std::string> writes = {};  // keys that it writes
  };
  struct Additions {
    bool is_under_way = false;
    std::vector<std::pair<ClientId, int64_t>> sent, next;
  };
  struct Barrier {
    bool is_under_way = false;
    int64_t world = 0;
    int64_t sent = 0;  // arrivals that the root has, or is about to get
    std::deque<ClientId> waiting, next;
  };
  struct Waits {
    size_t left = 0;
    std::vector<std::string> keys;
  };

  uint64_t Send(Sent sent, std::string_view raw);
  void Forward(ClientId client, const Request& request, std::string_view raw);
  void Get(ClientId client, const std::vector<std::string_view>& keys);
  void Provide(const Wanted& wanted, std::string_view value);
  void Wait(ClientId client, const Request& request);
  void Add(ClientId client, const Request& request);
  void SendAdditions(const std::string& key, Additions* additions);
  void Arrive(ClientId client, const Request& request);
  void SendArrivals(const std::string& key, Barrier* barrier);

  void OnFrame(Frame kind, std::string_view fields);
  void OnAnswer(FrameReader fields);
  void OnSum(const std::string& key, int64_t sum);
  void OnArrived(const std::string& key, bool is_complete);
  void OnPassed(std::string_view key);
  void OnThere(FrameReader fields);
  void Ready(ClientId client);
  void PassTurn(ClientId client, bool is_gone);
  void OnRefused(FrameReader fields);
  void OnValue(const Sent& sent, bool may_keep, std::string_view answer);
  void OnLost(std::string_view why);

  void Keep(std::string_view key, std::string_view value);
  void Drop(std::string_view key);
  void BeginWrite(std::string_view key);
  void EndWrite(std::string_view key);
  std::string& Out();

  Loop& loop_;
  const Setup setup_;
  Clients clients_;
  const std::function<void()> lost_;
  std::unique_ptr<Dial> dial_;
  std::unique_ptr<Link> link_;
  std::string before_;  // frames from before there was a connection
  absl::flat_hash_map<uint64_t, Sent> sent_;
  absl::flat_hash_map<uint64_t, Fetch> fetches_;
  KeyMap<std::vector<Wanted>> wanted_;  // keys whose value is on its way
  KeyMap<std::string> kept_;
  size_t kept_bytes_ = 0;
  KeyMap<uint32_t> writes_;  // keys that are being written, and how often
  KeyMap<Additions> additions_;
  KeyMap<Barrier> barriers_;
  KeyMap<std::deque<ClientId>> watched_;  // who waits for the key
  absl::flat_hash_map<ClientId, Waits> waits_;
  // Clients that were told of an item in the queue: the next one that waits for it gets its turn after their request,
  // which takes the item.
  absl::flat_hash_map<ClientId, std::string> queue_turns_;
  uint64_t last_number_ = 0;
  int64_t dial_pause_ms_ = 5;
  int64_t now_ms_ = 0;
  int64_t lost_ms_ = 0;  // when the store was lost; 0: it was not
};

}  // namespace muster::rendezvous
