// What is still to be told, and whose it is: so many deliveries for all owners together. One owner may
// have all of it; beyond, who has most gives some up, the newest first. Pure; the keeper's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/base/fair_share.h"
#include "coordinator/notify/delivery.h"

namespace muster::coordinator {

class Backlog {
 public:
  explicit Backlog(size_t most);

  struct Pending {
    int64_t since_ms = 0;  // wall clock: a restart does not begin the day anew
    std::string owner;     // of the job; empty: not known yet
    int tries = 0;
    bool is_posting = false;         // its receiver is being called
    uint64_t asked = 0;              // how often a node was asked to run it
    std::vector<std::string> nodes;  // those that may have been asked
    bool reported = false;           // over; its event is on the way to the journal
  };
  // False: it is there already.
  bool Add(const Delivery& delivery, const std::string& owner, int64_t since_ms);
  // Once it is known.
  void SetOwner(const Delivery& delivery, const std::string& owner);
  // Null: it is not there.
  Pending* Find(const Delivery& delivery);
  // Takes no place from here on, but is kept until its event is durable. False: it was before.
  bool MarkReported(const Delivery& delivery);
  void Erase(const Delivery& delivery);

  // What to give up next, and whose it is; nothing: there is room. None whose receiver is being called.
  struct Excess {
    Delivery delivery;
    std::string owner;
    size_t of_owner = 0;  // that wait
  };
  std::optional<Excess> FindExcess() const;

  const std::map<Delivery, Pending>& all() const { return all_; }
  size_t most() const { return most_; }
  // Whose events are on the way.
  size_t Reported() const { return all_.size() - share_.taken(); }

 private:
  const size_t most_;
  std::map<Delivery, Pending> all_;
  FairShare share_;  // those that are not reported, by owner
};

}  // namespace muster::coordinator
