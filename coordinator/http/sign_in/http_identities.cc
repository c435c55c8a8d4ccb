#include "coordinator/http/sign_in/http_identities.h"

#include <utility>

#include "common/base/status.h"
#include "coordinator/identity/cluster.h"

namespace muster::coordinator::http {

HttpIdentities::HttpIdentities(Cluster& cluster, Directory& directory, DirectoryRecords::Cut cut,
                               Enrolment::Place place,
                               std::unique_ptr<ShownCertificate> certificate)
    : records_(directory, std::move(cut)),
      enrolment_(cluster.authority(), records_, std::move(place)),
      certificate_(std::move(certificate)) {}

absl::StatusOr<std::unique_ptr<HttpIdentities>> HttpIdentities::Open(Cluster& cluster,
                                                                     Directory& directory,
                                                                     DirectoryRecords::Cut cut,
                                                                     Enrolment::Place place) {
  ASSIGN_OR_RETURN(std::unique_ptr<ShownCertificate> certificate, ShownCertificate::Open(cluster));
  return std::unique_ptr<HttpIdentities>(new HttpIdentities(
      cluster, directory, std::move(cut), std::move(place), std::move(certificate)));
}

}  // namespace muster::coordinator::http
