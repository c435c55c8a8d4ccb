// What HTTP needs from a cluster with identities: the certificate that its port shows, and the rules by
// which strangers become members.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/http/server/server_tls.h"
#include "coordinator/identity/browser_certificate.h"
#include "coordinator/identity/directory_records.h"
#include "coordinator/identity/enrolment.h"

namespace muster::coordinator {
class Cluster;
}

namespace muster::coordinator::http {

class HttpIdentities {
 public:
  // Both outlive this. Reads files.
  static absl::StatusOr<std::unique_ptr<HttpIdentities>> Open(Cluster& cluster,
                                                              Directory& directory,
                                                              DirectoryRecords::Cut cut,
                                                              Enrolment::Place place);
  const std::shared_ptr<ServerTls>& tls() const { return tls_; }
  Enrolment& enrolment() { return enrolment_; }
  // Shows browsers the certificate that an operator has put beside the cluster's keys, if it has changed.
  // JC1369 if it cannot be used; the previous one stays.
  absl::Status ShowToBrowsers(int64_t now_ms);
  // Issues the coordinator's next certificate when the current one nears its end, and shows the new one.
  // Blocks on the disk.
  absl::Status RenewIfDue(int64_t now_ms);

 private:
  HttpIdentities(Cluster& cluster, Directory& directory, DirectoryRecords::Cut cut,
                 Enrolment::Place place, std::shared_ptr<ServerTls> tls);

  Cluster& cluster_;
  DirectoryRecords records_;
  Enrolment enrolment_;
  const std::shared_ptr<ServerTls> tls_;
  std::string shown_;                // the certificate that tls_ has
  BrowserCertificate for_browsers_;  // that is shown; empty: none
};

}  // namespace muster::coordinator::http
