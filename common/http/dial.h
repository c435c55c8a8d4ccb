// A TCP connection to a host: its name resolved once, its addresses tried in order. Any thread.
#pragma once

#include <sys/socket.h>

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/files.h"
#include "common/http/deadline.h"
#include "common/text/url.h"

namespace muster::common {

// The first address that may be called (empty: all) and answers. Errors: NOT_FOUND: the host does not
// resolve; UNAVAILABLE: no address answers; CANCELLED; the error of may_call about the last address.
absl::StatusOr<UniqueFd> Dial(const HttpUrl& url,
                              const std::function<absl::Status(const sockaddr*)>& may_call,
                              const Deadline& deadline);

}  // namespace muster::common
