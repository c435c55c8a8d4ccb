// The credential of an attempt's ranks towards their worker: a secret in a file that only their
// account can read. The worker keeps only its SHA-256, so that a restarted one knows it too, and
// removes both with the attempt's directory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/kernel/shim_protocol.h"
#include "worker/base/paths.h"

namespace muster::worker {

// What a connection to the trainer socket has to show to speak for a rank.
struct RankPass {
  uint32_t uid = 0;          // of the ranks; the worker's own and root may always connect
  std::string token_sha256;  // hex digits; empty: an older worker, which made none
  bool needs_token = false;  // else a rank that does not know about it speaks without
};

// Makes the token before the ranks start; again: another one. Errors: of the files.
absl::Status IssueRankToken(const Paths& paths, const AttemptKey& key,
                            const common::LaunchAccount& account);
RankPass ReadRankPass(const Paths& paths, const AttemptKey& key,
                      const common::LaunchAccount& account);

bool MayConnect(const RankPass& pass, uint32_t peer_uid);
// `token`: from the hello; empty: it had none. PERMISSION_DENIED names the file to read it from.
absl::Status CheckToken(const RankPass& pass, std::string_view token);

}  // namespace muster::worker
