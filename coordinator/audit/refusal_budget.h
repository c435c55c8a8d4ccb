// How many refusals are recorded: a rate for each refused party, and one for all together, with some
// credit for bursts. A party that is refused all the time does not hide the refusals of others. The
// next recorded refusal states how many were left out. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/lru_map.h"
#include "muster/v1/identity.pb.h"

namespace muster::coordinator {

class RefusalBudget {
 public:
  struct Rate {
    int64_t at_once = 0;
    int64_t per_second = 0;
  };
  struct Rates {
    // limit: audit: refusals of one caller that are recorded; others are counted in the next one
    Rate each{.at_once = 20, .per_second = 2};
    // limit: audit: refusals of all members that are recorded, and of all strangers
    Rate all{.at_once = 100, .per_second = 10};
  };
  // Beyond this, the parties refused least recently are forgotten.
  // limit: audit: callers of each kind told apart; the least recently refused is forgotten
  static constexpr size_t kRememberedMax = 1'024;
  // Refusals since the last one that was recorded.
  struct LeftOut {
    uint64_t own = 0;
    uint64_t of_others = 0;
  };

  RefusalBudget() : RefusalBudget(Rates()) {}
  explicit RefusalBudget(const Rates& rates) : rates_(rates) {}

  // Whether this refusal is recorded. Nothing: it was only counted.
  std::optional<LeftOut> Take(const std::string& who, int64_t now_ms);
  // This refusal cannot be recorded, whatever the budget.
  void LeaveOut(const std::string& who, int64_t now_ms);

 private:
  // Credit is counted in milliseconds of its rate, so that nothing is lost to rounding.
  struct Bucket {
    int64_t credit = 0;
    int64_t at_ms = 0;
    uint64_t left_out = 0;
  };
  static void Refill(Bucket& bucket, const Rate& rate, int64_t now_ms);
  Bucket& BucketOf(const std::string& who, int64_t now_ms);
  LeftOut TellLeftOut(const Bucket& own);

  const Rates rates_;
  std::optional<Bucket> all_;
  uint64_t left_out_ = 0;  // of all parties, including forgotten ones
  common::LruMap<std::string, Bucket> known_{kRememberedMax};
};

// The party that a refusal counts against: the person, node or local account; for a stranger the
// address, with IPv6 its /64, because a stranger can take any address in it.
struct RefusedParty {
  std::string name;
  bool is_stranger = false;
};
RefusedParty RefusedPartyOf(const v1::AuditEntry& entry);

}  // namespace muster::coordinator
