// What the ranks of an attempt have stored, and who waits for what: torch's TCPStore without its sockets. The root's;
// one thread; pure.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "rendezvous/key_map.h"
#include "rendezvous/requests.h"

namespace muster::rendezvous {

using Waiter = uint64_t;  // a local client
using LinkId = uint32_t;  // the relay of another node

class Values {
 public:
  // limit: rendezvous: bytes of an attempt's keys and values; the connection that sets more is closed
  static constexpr uint64_t kBytesMax = 512 << 20;
  // limit: rendezvous: keys that all waits name that are under way; the connection that waits for more is closed
  static constexpr size_t kAwaitedMax = 67'108'864;

  // What operations have set off. The caller takes it after each one.
  struct Effects {
    std::vector<Waiter> ready;                             // their wait or barrier is over
    std::vector<std::pair<LinkId, std::string>> there;     // watched keys that are there now
    std::vector<std::pair<LinkId, std::string>> outdated;  // held keys that have changed
    std::vector<std::pair<LinkId, std::string>> passed;    // barriers that are complete
    bool empty() const {
      return ready.empty() && there.empty() && outdated.empty() && passed.empty();
    }
  };

  explicit Values(uint64_t bytes_max = kBytesMax) : bytes_max_(bytes_max) {}

  // Carries out what is not a wait or a barrier, and appends the answer, if it has one. False: it is refused, and Why()
  // is the reason.
  bool Execute(const Request& request, std::string* answer);
  const std::string& Why() const { return why_; }

  bool IsThere(std::string_view key) const;
  bool IsQueue(std::string_view key) const {
    return queues_.contains(key) && !entries_.contains(key);
  }
  // True if a copy of the key's value stays right until it is reported as outdated: it was set once.
  bool MayBeHeld(std::string_view key) const;
  std::string_view Get(std::string_view key) const;

  // A waiter has at most one wait or barrier. kPassed: all are there, and it is not recorded. kRefused: Why().
  enum class Waiting { kPassed, kRecorded, kRefused };
  Waiting Wait(Waiter waiter, const std::vector<std::string_view>& keys);
  // True: the barrier is complete. `arrivals` of them at once; `ok` is false if the key has another value.
  bool Arrive(std::string_view key, int64_t world, int64_t arrivals, bool* ok);
  void AwaitBarrier(Waiter waiter, std::string_view key);
  void AwaitBarrier(LinkId link, std::string_view key);
  void StopWaiting(Waiter waiter);

  // True if the key is there; else the link is told once it is.
  bool Watch(LinkId link, std::string_view key);
  // The same for those of a link who waited when it was told of an item of a queue: items that others were told of do
  // not count.
  bool WatchOn(LinkId link, std::string_view key);
  // Another one is told of an item of the queue instead.
  void Decline(std::string_view key);
  void StopWatching(LinkId link, std::string_view key);
  // The link keeps a copy of the key's value.
  void Hold(LinkId link, std::string_view key);
  void Forget(LinkId link);

  Effects TakeEffects() { return std::exchange(effects_, {}); }
  bool HasEffects() const { return !effects_.empty(); }

 private:
  struct Entry {
    std::string value;
    bool is_fixed = false;  // it was set once, and never changed
    std::vector<LinkId> holders;
  };
  struct Queue {
    std::deque<std::string> items;
    size_t told = 0;  // items that one of those that waited was told to fetch
  };
  // Waits are listed by ticket, which is never reused: one that is over stays in the lists of its keys until these are
  // there or the lists are swept, so that ending it costs nothing.
  using Ticket = uint64_t;
  struct Awaited {
    std::vector<Ticket> tickets;
    std::vector<LinkId> links;
    bool empty() const { return tickets.empty() && links.empty(); }
  };
  struct Pending {
    Waiter waiter = 0;
    size_t left = 0;  // keys that are not there
  };
  using AwaitedByKey = KeyMap<Awaited>;

  bool Store(std::string_view key, std::string value);
  bool Add(std::string_view key, int64_t amount, int64_t* sum);
  bool CompareSet(const Request& request, std::string* answer);
  int64_t Delete(std::string_view key);
  bool Push(std::string_view key, std::string_view value);
  void Pop(std::string_view key, std::string* answer);
  Ticket Record(Waiter waiter, size_t left);
  void AddLink(AwaitedByKey* map, std::string_view key, LinkId link);
  void List(AwaitedByKey* map, std::string_view key, Ticket ticket);
  Awaited Unlist(AwaitedByKey* map, std::string_view key);
  void Progress(Ticket ticket);
  void SweepIfStale();
  void Wake(std::string_view key);
  bool WakeOne(std::string_view key);
  void Outdate(std::string_view key, Entry* entry);
  bool Count(size_t more, size_t less);
  bool Refuse(std::string why);

  const uint64_t bytes_max_;
  uint64_t bytes_ = 0;
  KeyMap<Entry> entries_;
  KeyMap<Queue> queues_;
  AwaitedByKey awaited_;  // keys that are not there
  AwaitedByKey barriers_;
  absl::flat_hash_map<Ticket, Pending> pending_;
  absl::flat_hash_map<Waiter, Ticket> tickets_;
  Ticket last_ticket_ = 0;
  size_t listed_ = 0;  // tickets in all lists
  size_t live_ = 0;    // … of them those that still wait
  Effects effects_;
  std::string why_;
};

}  // namespace muster::rendezvous
