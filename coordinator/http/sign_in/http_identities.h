// What HTTP needs from a cluster with identities: the certificate that its port shows, and the rules by
// which strangers become members.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/http/sign_in/shown_certificate.h"
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
  ShownCertificate& certificate() { return *certificate_; }
  Enrolment& enrolment() { return enrolment_; }

 private:
  HttpIdentities(Cluster& cluster, Directory& directory, DirectoryRecords::Cut cut,
                 Enrolment::Place place, std::unique_ptr<ShownCertificate> certificate);

  DirectoryRecords records_;
  Enrolment enrolment_;
  const std::unique_ptr<ShownCertificate> certificate_;
};

}  // namespace muster::coordinator::http
