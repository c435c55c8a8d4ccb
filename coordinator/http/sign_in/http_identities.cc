#include "coordinator/http/sign_in/http_identities.h"

#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/files/files.h"
#include "coordinator/identity/cluster.h"

namespace muster::coordinator::http {
namespace {

constexpr size_t kPemFileMax = 64 * 1024;

struct CertificateAndKey {
  std::string certificate_pem;
  std::string key_pem;
};

absl::StatusOr<CertificateAndKey> ReadPair(const Cluster& cluster) {
  CertificateAndKey pair;
  ASSIGN_OR_RETURN(pair.certificate_pem, common::ReadFile(cluster.certificate_file(), kPemFileMax));
  ASSIGN_OR_RETURN(pair.key_pem, common::ReadFile(cluster.key_file(), kPemFileMax));
  return pair;
}

}  // namespace

HttpIdentities::HttpIdentities(Cluster& cluster, Directory& directory, DirectoryRecords::Cut cut,
                               Enrolment::Place place, std::shared_ptr<ServerTls> tls)
    : cluster_(cluster),
      records_(directory, std::move(cut)),
      enrolment_(cluster.authority(), records_, std::move(place)),
      tls_(std::move(tls)) {}

absl::StatusOr<std::unique_ptr<HttpIdentities>> HttpIdentities::Open(Cluster& cluster,
                                                                     Directory& directory,
                                                                     DirectoryRecords::Cut cut,
                                                                     Enrolment::Place place) {
  ASSIGN_OR_RETURN(const CertificateAndKey pair, ReadPair(cluster));
  ASSIGN_OR_RETURN(std::shared_ptr<ServerTls> tls,
                   ServerTls::Make(pair.certificate_pem, pair.key_pem));
  std::unique_ptr<HttpIdentities> identities(
      new HttpIdentities(cluster, directory, std::move(cut), std::move(place), std::move(tls)));
  identities->shown_ = pair.certificate_pem;
  return identities;
}

absl::Status HttpIdentities::ShowToBrowsers(int64_t now_ms) {
  const BrowserFiles files = BrowserFilesIn(cluster_.keys_dir());
  if (!common::Exists(files.certificate)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const BrowserCertificate read, ReadBrowserCertificate(files, {}, now_ms));
  if (read == for_browsers_) return absl::OkStatus();
  RETURN_IF_ERROR(tls_->ShowToBrowsers(read.certificate_pem, read.key_pem));
  for_browsers_ = read;
  return absl::OkStatus();
}

absl::Status HttpIdentities::RenewIfDue(int64_t now_ms) {
  RETURN_IF_ERROR(cluster_.RenewIfDue(now_ms).status());
  ASSIGN_OR_RETURN(CertificateAndKey pair, ReadPair(cluster_));
  // Also shows one that was issued earlier, if that failed then.
  if (pair.certificate_pem == shown_) return absl::OkStatus();
  RETURN_IF_ERROR(tls_->Replace(pair.certificate_pem, pair.key_pem));
  shown_ = std::move(pair.certificate_pem);
  return absl::OkStatus();
}

}  // namespace muster::coordinator::http
