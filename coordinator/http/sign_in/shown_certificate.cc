#include "coordinator/http/sign_in/shown_certificate.h"

#include <chrono>
#include <utility>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/identity/cluster.h"

namespace muster::coordinator::http {
namespace {

constexpr size_t kPemFileMax = 64 * 1024;
constexpr std::chrono::seconds kLookedAtEvery{3'600};
constexpr std::chrono::seconds kRetriedAfter{600};
constexpr int64_t kToldEveryMs = 24 * 3'600'000;

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

absl::StatusOr<std::unique_ptr<ShownCertificate>> ShownCertificate::Open(Cluster& cluster) {
  ASSIGN_OR_RETURN(CertificateAndKey pair, ReadPair(cluster));
  ASSIGN_OR_RETURN(std::shared_ptr<ServerTls> tls,
                   ServerTls::Make(pair.certificate_pem, pair.key_pem));
  return std::unique_ptr<ShownCertificate>(
      new ShownCertificate(cluster, std::move(tls), std::move(pair.certificate_pem)));
}

absl::Status ShownCertificate::ShowToBrowsers(int64_t now_ms) {
  const BrowserFiles files = BrowserFilesIn(cluster_.keys_dir());
  if (!common::Exists(files.certificate)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const BrowserCertificate read, ReadBrowserCertificate(files, {}, now_ms));
  if (read == for_browsers_) return absl::OkStatus();
  RETURN_IF_ERROR(tls_->ShowToBrowsers(read.certificate_pem, read.key_pem));
  for_browsers_ = read;
  return absl::OkStatus();
}

void ShownCertificate::TryToShowToBrowsers(int64_t now_ms) {
  const absl::Status shown = ShowToBrowsers(now_ms);
  if (shown.ok()) return;
  common::LogWarning(
      common::StrCat("browsers are not shown the certificate beside the cluster's keys: ",
                     common::Readable(common::ProblemOf(shown))));
}

absl::Status ShownCertificate::RenewIfDue(int64_t now_ms) {
  RETURN_IF_ERROR(cluster_.RenewIfDue(now_ms).status());
  ASSIGN_OR_RETURN(CertificateAndKey pair, ReadPair(cluster_));
  // Also shows one that was issued earlier, if that failed then.
  if (pair.certificate_pem == shown_) return absl::OkStatus();
  RETURN_IF_ERROR(tls_->Replace(pair.certificate_pem, pair.key_pem));
  shown_ = std::move(pair.certificate_pem);
  return absl::OkStatus();
}

void ShownCertificate::Keep(WorkPool& pool, const common::Clock& clock) {
  TryToShowToBrowsers(clock.Read().wall_ms);  // before HTTP takes its names for its own
  pool.Post([this, &pool, &clock] { KeepRenewing(pool, clock); });
}

void ShownCertificate::KeepRenewing(WorkPool& pool, const common::Clock& clock) {
  const common::Now now = clock.Read();
  TryToShowToBrowsers(now.wall_ms);
  absl::Status renewed = RenewIfDue(now.wall_ms);
  if (renewed.ok()) renewed = cluster_.Certificate().why;
  if (renewed.ok()) {
    told_ms_.reset();
  } else if (now.mono_ms - told_ms_.value_or(INT64_MIN / 2) >= kToldEveryMs) {
    told_ms_ = now.mono_ms;
    common::LogWarning(common::Readable(common::ProblemOf(renewed)));
  }
  pool.PostAfter(renewed.ok() ? kLookedAtEvery : kRetriedAfter,
                 [this, &pool, &clock] { KeepRenewing(pool, clock); });
}

}  // namespace muster::coordinator::http
