#include "coordinator/http/admission/request_pace.h"

#include <algorithm>

#include "coordinator/net/peer_address.h"

namespace muster::coordinator::http {

void RequestPace::Refill(Bucket& bucket, const Rate& rate, Time now) {
  const double seconds = std::chrono::duration<double>(now - bucket.at).count();
  bucket.left = std::min(rate.saved_up, bucket.left + std::max(0.0, seconds) * rate.per_second);
  bucket.at = now;
}

RequestPace::Bucket& RequestPace::BucketOf(const std::string& network, Time now) {
  if (Bucket* known = addresses_.Find(network); known != nullptr) return *known;
  return addresses_.Put(network, {.left = rates_.address.saved_up, .at = now});
}

bool RequestPace::Allows(std::string_view principal, Time now) {
  Bucket& own = BucketOf(NetworkOf(principal), now);
  Refill(own, rates_.address, now);
  // An address over its own rate does not use up the shared rate.
  if (own.left < 1) return false;
  Refill(all_, rates_.all, now);
  if (all_.left < 1) return false;
  --own.left;
  --all_.left;
  return true;
}

}  // namespace muster::coordinator::http
