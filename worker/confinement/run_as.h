// The rules for which account ranks get, without looking up the node's accounts. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace muster::worker {

struct RunAs {
  enum class Kind {
    kWorker,  // the worker's own account
    kOwner,   // that of the job's owner
    kFixed    // `account`, for all jobs
  };
  Kind kind = Kind::kWorker;
  std::string account;
  bool allows_root = false;

  bool IsOther() const { return kind != Kind::kWorker; }
};

// The default of the flag. A worker that is not root has no choice, and without a secured cluster the
// owner's name is only what a peer claims.
RunAs DefaultRunAs(bool is_root, bool is_secured);
// "owner", "worker", or an account's name or number.
RunAs ParseRunAs(std::string_view text);
// In the flag's form.
std::string RunAsText(const RunAs& run_as);

// An account to look up on the node: by number or by name.
struct AccountName {
  std::optional<uint32_t> uid;
  std::string name;
  std::string Text() const;
};

// `owner` and `account` as in LaunchAttempt; not for kWorker. INVALID_ARGUMENT names an owner that does
// not stand for an account.
absl::StatusOr<AccountName> NameAccount(const RunAs& run_as, std::string_view owner,
                                        std::string_view account);

}  // namespace muster::worker
