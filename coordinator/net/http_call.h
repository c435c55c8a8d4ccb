// Requests to servers outside of the cluster: a webhook, an identity provider. Wraps the one HTTP client with
// errors that name the server. Blocks, for at most as long as the call allows; any thread of a pool.
#pragma once

#include <atomic>

#include "absl/status/statusor.h"
#include "common/http/client.h"

namespace muster::coordinator {

// UNAVAILABLE: it does not answer, shows a certificate that is not valid, or does not speak HTTP.
// CANCELLED: `stop` was set. The error of may_call if no address of the host may be called.
absl::StatusOr<common::HttpResponse> CallOutside(const common::HttpCall& call,
                                                 const std::atomic<bool>& stop);

}  // namespace muster::coordinator
