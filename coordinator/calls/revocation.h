// The consequences for connections when certificates are refused from now on. Any thread of the pool; blocks
// on the disk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/contexts/contexts.h"

namespace muster::coordinator {

// Closes connections made with these certificates now, and the caller's own once the answer has left. Returns how
// many.
uint32_t Cut(Access& access, Process& process, const Caller& caller,
             const std::vector<v1::Credential>& revoked);
// Revokes the certificates of a node that was removed.
absl::Status RevokeNode(Access& access, Process& process, const Caller& caller,
                        const std::string& node);

}  // namespace muster::coordinator
