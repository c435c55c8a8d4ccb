// The deliveries still to be made, and their owners: a limited number for all owners together. One owner
// may have all of it; beyond it, the owner with most gives some up, the newest first. Pure; the keeper's
// thread.
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
    int64_t since_ms = 0;  // wall clock, so that a restart does not reset it
    std::string owner;     // of the job; empty: not known yet
    int tries = 0;
    bool is_posting = false;         // its receiver is being called
    uint64_t asked = 0;              // how often a node was asked to run it
    std::vector<std::string> nodes;  // nodes that may have been asked
    bool reported = false;           // over; its event is on the way to the journal
  };
  // False: it is there already.
  bool Add(const Delivery& delivery, const std::string& owner, int64_t since_ms);
  // Call it once the owner is known.
  void SetOwner(const Delivery& delivery, const std::string& owner);
  // Null: it is not there.
  Pending* Find(const Delivery& delivery);
  // From here on it takes no place, but is kept until its event is durable. False: it was marked already.
  bool MarkReported(const Delivery& delivery);
  void Erase(const Delivery& delivery);

  // The delivery to give up next, and its owner; nothing: there is room. Never one whose receiver is being
  // called.
  struct Excess {
    Delivery delivery;
    std::string owner;
    size_t of_owner = 0;  // the owner's deliveries that wait
  };
  std::optional<Excess> FindExcess() const;

  const std::map<Delivery, Pending>& all() const { return all_; }
  size_t most() const { return most_; }
  // The number of deliveries whose events are on the way to the journal.
  size_t Reported() const { return all_.size() - share_.taken(); }

 private:
  const size_t most_;
  std::map<Delivery, Pending> all_;
  FairShare share_;  // the deliveries that are not reported yet, by owner
};

}  // namespace muster::coordinator
