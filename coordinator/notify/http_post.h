// One POST over http or https, to an address that may be called. No redirect is followed, no proxy
// is used. Blocks, for at most kPostWithin; any thread of a pool.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/url.h"
#include "coordinator/notify/address.h"

namespace muster::coordinator {

inline constexpr std::chrono::seconds kPostWithin{10};

struct PostRequest {
  common::HttpUrl url;
  std::string body;  // JSON
  std::vector<std::pair<std::string, std::string>> headers;
};

// The status of the answer (200, 404, …); nothing else of it is read. The host is resolved once,
// and exactly the address that was checked is called. With https the certificate must be valid for
// the host. PERMISSION_DENIED: no address of the host may be called. UNAVAILABLE: it does not
// answer. CANCELLED: `stop` was set.
absl::StatusOr<int> Post(const PostRequest& request, const std::vector<Network>& allowed,
                         const std::atomic<bool>& stop);

}  // namespace muster::coordinator
