// How many requests without a session are answered: a rate for all together and one for each address
// (IPv6: each /64), with some saved up for bursts. One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/lru_map.h"

namespace muster::coordinator::http {

class RequestPace {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Rate {
    double per_second = 0;
    double saved_up = 0;  // at most
  };
  struct Rates {
    // limit: enrolment: requests of all; 429
    Rate all{.per_second = 50, .saved_up = 500};
    // Enough for a whole cluster behind one address, too: a thousand nodes join in minutes.
    // limit: enrolment: requests of one address or IPv6 /64; 429
    Rate address{.per_second = 5, .saved_up = 50};
  };
  // Addresses that are remembered; beyond this, the least recently active are forgotten.
  static constexpr size_t kAddressesMax = 1'024;

  RequestPace() : RequestPace(Rates()) {}
  explicit RequestPace(const Rates& rates) : rates_(rates), all_{.left = rates.all.saved_up} {}

  // Whether a request of this principal may be answered now; counts it if so.
  bool Allows(std::string_view principal, Time now);

 private:
  struct Bucket {
    double left = 0;
    Time at{};
  };
  static void Refill(Bucket& bucket, const Rate& rate, Time now);
  Bucket& BucketOf(const std::string& network, Time now);

  const Rates rates_;
  Bucket all_;
  common::LruMap<std::string, Bucket> addresses_{kAddressesMax};
};

}  // namespace muster::coordinator::http
