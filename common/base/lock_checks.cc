#include "common/base/lock_checks.h"

#include "absl/synchronization/mutex.h"

namespace muster::common {

void LeaveOutLockChecks() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }

}  // namespace muster::common
