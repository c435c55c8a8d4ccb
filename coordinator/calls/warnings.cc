#include "coordinator/calls/warnings.h"

#include <algorithm>
#include <string>

#include "common/base/clock.h"
#include "common/text/strings.h"
#include "common/text/units.h"
#include "coordinator/contexts/contexts.h"
#include "coordinator/identity/cluster.h"
#include "coordinator/stores/stream_failures.h"

namespace muster::coordinator {

using common::StrCat;

std::optional<common::Problem> CertificateWarning(const Access& access, const Process& process) {
  if (access.cluster == nullptr) return std::nullopt;
  const Cluster::CertificateState certificate = access.cluster->Certificate();
  if (certificate.why.ok()) return std::nullopt;
  const int64_t left_ms = certificate.not_after_ms - process.clock.Read().wall_ms;
  return common::Problem{
      .code = std::string(common::CodeOf(certificate.why)),
      .what =
          StrCat("the coordinator's certificate cannot be renewed and ",
                 left_ms > 0 ? StrCat("ends in ", common::HumanDuration(left_ms)) : "has ended"),
      .fix = "the coordinator's log tells why; its keys' directory must be writable for it"};
}

std::vector<common::Problem> Warnings(const JobStores& stores, const Access& access,
                                      const Process& process) {
  constexpr size_t kJobsShown = 5;
  std::vector<common::Problem> warnings;
  if (std::optional<common::Problem> certificate = CertificateWarning(access, process))
    warnings.push_back(*std::move(certificate));
  const std::vector<StreamFailures::Failure> failures = stores.stream_failures.Now();
  for (size_t i = 0; i < std::min(failures.size(), kJobsShown); ++i)
    warnings.push_back(failures[i].problem);
  if (failures.size() > kJobsShown)
    warnings.back().what += StrCat("; and files of ", failures.size() - kJobsShown, " more jobs");
  return warnings;
}

}  // namespace muster::coordinator
