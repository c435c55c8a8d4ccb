// Whose account ranks get: the rules, without a look at the node's accounts. Pure.
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

// Where the flag is not given. A worker that is not root has no choice; and without a secured
// cluster the owner's name is no more than what a peer says.
RunAs DefaultRunAs(bool is_root, bool is_secured);
// "owner", "worker", or an account's name or number.
RunAs ParseRunAs(std::string_view text);
// As the flag takes it.
std::string RunAsText(const RunAs& run_as);

// An account to look up on the node: by number or by name.
struct AccountName {
  std::optional<uint32_t> uid;
  std::string name;
  std::string Text() const;
};

// `owner` and `account` as in LaunchAttempt; not for kWorker. INVALID_ARGUMENT names an owner that
// says nothing of an account.
absl::StatusOr<AccountName> NameAccount(const RunAs& run_as, std::string_view owner,
                                        std::string_view account);

}  // namespace muster::worker
