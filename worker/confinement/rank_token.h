// The credential with which an attempt's ranks identify themselves to their worker: a secret in a file
// that only their account can read. The worker stores only its SHA-256, by which a restarted worker
// recognizes it, and removes both with the attempt's directory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/kernel/shim_protocol.h"
#include "worker/base/paths.h"

namespace muster::worker {

// What a connection to the trainer socket must present to report for a rank.
struct RankPass {
  uint32_t uid = 0;          // of the ranks; the worker's own and root may always connect
  std::string token_sha256;  // hex digits; empty: an older worker, which made none
  bool needs_token = false;  // otherwise a rank that does not know about tokens may omit it
};

// Makes the token before the ranks start; each call makes another one. Errors: of the files.
absl::Status IssueRankToken(const Paths& paths, const AttemptKey& key,
                            const common::LaunchAccount& account);
RankPass ReadRankPass(const Paths& paths, const AttemptKey& key,
                      const common::LaunchAccount& account);

bool MayConnect(const RankPass& pass, uint32_t peer_uid);
// `token`: from the hello; empty: it had none. PERMISSION_DENIED names the file that has the token.
absl::Status CheckToken(const RankPass& pass, std::string_view token);

}  // namespace muster::worker
