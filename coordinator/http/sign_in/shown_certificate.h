// The certificate that a cluster's HTTP ports show, kept valid: the coordinator's own, and for browsers the one that
// an operator has put beside the cluster's keys.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "coordinator/base/work_pool.h"
#include "coordinator/http/server/server_tls.h"
#include "coordinator/identity/browser_certificate.h"

namespace muster::coordinator {
class Cluster;
}

namespace muster::coordinator::http {

class ShownCertificate {
 public:
  // `cluster` outlives this. Reads files.
  static absl::StatusOr<std::unique_ptr<ShownCertificate>> Open(Cluster& cluster);
  const std::shared_ptr<ServerTls>& tls() const { return tls_; }
  // Shows and renews what is due: now, every hour, and sooner after a failure, until the pool stops. Failures are
  // logged, as a coordinator whose browsers see a warning is better than none. All outlive the pool's threads.
  void Keep(WorkPool& pool, const common::Clock& clock);

 private:
  ShownCertificate(Cluster& cluster, std::shared_ptr<ServerTls> tls, std::string shown)
      : cluster_(cluster), tls_(std::move(tls)), shown_(std::move(shown)) {}
  absl::Status ShowToBrowsers(int64_t now_ms);
  void TryToShowToBrowsers(int64_t now_ms);
  // Issues the coordinator's next certificate when the current one nears its end, and shows the new one.
  absl::Status RenewIfDue(int64_t now_ms);
  void KeepRenewing(WorkPool& pool, const common::Clock& clock);

  Cluster& cluster_;
  const std::shared_ptr<ServerTls> tls_;
  std::string shown_;                // the certificate that tls_ has
  BrowserCertificate for_browsers_;  // that is shown; empty: none
  std::optional<int64_t> told_ms_;   // its last logged failure
};

}  // namespace muster::coordinator::http
