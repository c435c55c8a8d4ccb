#include "shim/process_domain.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace muster::shim {
namespace {

// Newer than these headers: linux/landlock.h.
struct LandlockRules {
  uint64_t files = 0;
  uint64_t network = 0;
  uint64_t scoped = 0;
};
constexpr uint64_t kScopedAbstractSockets = 1 << 0;
constexpr uint64_t kScopedSignals = 1 << 1;
constexpr unsigned kAskVersion = 1;
constexpr long kVersionWithScopes = 6;  // Linux 6.12

std::string Lacks(const char* what) { return std::string(what) + ": " + std::strerror(errno); }

}  // namespace

std::string EnterOwnDomain() {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, kAskVersion);
  if (version < 0) return Lacks("this kernel has none");
  if (version < kVersionWithScopes) {
    return "this kernel has version " + std::to_string(version) + ", and it takes " +
           std::to_string(kVersionWithScopes) + " (Linux 6.12)";
  }
  LandlockRules rules;
  rules.scoped = kScopedAbstractSockets | kScopedSignals;
  const int domain =
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0));
  if (domain < 0) return Lacks("cannot make a domain");
  const bool entered = syscall(SYS_landlock_restrict_self, domain, 0) == 0;
  const std::string lack = entered ? "" : Lacks("cannot enter a domain");
  close(domain);
  return lack;
}

}  // namespace muster::shim
