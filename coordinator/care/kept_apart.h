// Notes and the audit: a coordinator that is alone keeps them in files, one of several in the database. Here they move
// from one to the other. The caller holds the locks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/base/damage.h"
#include "coordinator/config/open_stores.h"
#include "coordinator/stores/commit_log.h"

namespace muster::coordinator {

// For a copy that no coordinator uses: what is written there has no place in a log.
class OfACopy final : public CommitLog {
 public:
  // Where a log that begins with the copy continues.
  static constexpr uint64_t kPosition = 1;
  absl::StatusOr<uint64_t> Append(std::string_view) override { return kPosition; }
  void FailedHere(const absl::Status&) override {}
};

// Entries of the audit that `to` has already are left as they are: numbers never repeat. Returns the last one's number.
// `found`: takes what of the audit cannot be read, and the rest is copied; without it that is an error.
absl::StatusOr<uint64_t> CopyNotesAndAudit(const std::shared_ptr<SharedState>& from,
                                           const std::shared_ptr<SharedState>& to,
                                           const OnDamage& found = nullptr);

// Makes the copy of a state in etcd that lies in `stage` one of a coordinator that is alone: what else that one needs is
// put into `data_dir`. Nothing, if it is one. `found`: as above.
absl::Status LeaveTheOthers(const std::string& stage, const std::string& data_dir,
                            const OnDamage& found);

}  // namespace muster::coordinator
