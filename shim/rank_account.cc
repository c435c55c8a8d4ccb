#include "shim/rank_account.h"

#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace muster::shim {
namespace {

using common::ExecStage;

constexpr int kCapabilities = 64;  // more than any kernel knows
// With these, uid 0 is nothing special for this process and all that it starts.
constexpr unsigned long kRootIsNobody = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED |
                                        SECBIT_NO_CAP_AMBIENT_RAISE |
                                        SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;

bool HoldsCapabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[2] = {};
  if (syscall(SYS_capget, &header, sets) != 0) return true;
  return (sets[0].permitted | sets[1].permitted) != 0;
}

// Drops what later programs could gain, while this process still has the right to do so.
bool DropFuture() {
  for (int capability = 0; capability < kCapabilities; ++capability) {
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 && errno != EINVAL) return false;
  }
  return prctl(PR_SET_SECUREBITS, kRootIsNobody, 0, 0, 0) == 0;
}

bool DropPresent() {
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);  // there are none before Linux 4.3
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2] = {};
  return syscall(SYS_capset, &header, none) == 0;
}

bool ChangeIds(const common::LaunchAccount& account) {
  static_assert(sizeof(gid_t) == sizeof(uint32_t));
  return setgroups(account.groups.size(), account.groups.data()) == 0 &&
         setresgid(account.gid, account.gid, account.gid) == 0 &&
         setresuid(account.uid, account.uid, account.uid) == 0;
}

}  // namespace

ExecStage BecomeAccount(const common::LaunchAccount& account, bool drops_capabilities) {
  const bool holds = drops_capabilities && HoldsCapabilities();
  if (holds && !DropFuture()) return ExecStage::kSandbox;
  if (account.is_other && !ChangeIds(account)) return ExecStage::kAccount;
  if (drops_capabilities && !DropPresent()) return ExecStage::kSandbox;
  return ExecStage::kNone;
}

}  // namespace muster::shim
