#include "coordinator/services/caller.h"

#include <unistd.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster::coordinator {

Caller CallerOf(const grpc::CallbackServerContext& context) {
  const std::string peer = context.peer();
  if (absl::StartsWith(peer, "unix:")) return Caller{absl::StrCat("uid:", getuid())};
  // "ipv4:10.0.0.7:41234" → "peer:10.0.0.7"; "ipv6:[::1]:41234" → "peer:[::1]".
  const size_t begin = peer.find(':');
  const size_t end = peer.rfind(':');
  if (begin == std::string::npos || end <= begin) return Caller{absl::StrCat("peer:", peer)};
  return Caller{absl::StrCat("peer:", peer.substr(begin + 1, end - begin - 1))};
}

}  // namespace muster::coordinator
