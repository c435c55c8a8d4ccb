#include "coordinator/http/request_pace.h"

#include <algorithm>
#include <utility>

#include "coordinator/peer_address.h"

namespace muster::coordinator::http {

void RequestPace::Refill(Bucket& bucket, const Rate& rate, Time now) {
  const double seconds = std::chrono::duration<double>(now - bucket.at).count();
  bucket.left = std::min(rate.saved_up, bucket.left + std::max(0.0, seconds) * rate.per_second);
  bucket.at = now;
}

RequestPace::Bucket& RequestPace::BucketOf(std::string network, Time now) {
  const auto found = addresses_.find(network);
  if (found != addresses_.end()) return found->second;
  if (addresses_.size() >= kAddressesMax) {
    const auto oldest =
        std::min_element(addresses_.begin(), addresses_.end(),
                         [](const auto& a, const auto& b) { return a.second.at < b.second.at; });
    addresses_.erase(oldest);
  }
  return addresses_[std::move(network)] = {.left = rates_.address.saved_up, .at = now};
}

bool RequestPace::Allows(std::string_view principal, Time now) {
  Bucket& own = BucketOf(NetworkOf(principal), now);
  Refill(own, rates_.address, now);
  // Who asks too much does not use up what the others may ask.
  if (own.left < 1) return false;
  Refill(all_, rates_.all, now);
  if (all_.left < 1) return false;
  --own.left;
  --all_.left;
  return true;
}

}  // namespace muster::coordinator::http
