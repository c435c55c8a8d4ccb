#include "coordinator/core/scheduling/demand.h"

#include "absl/strings/str_cat.h"
#include "common/job/code.h"
#include "common/job/precision.h"

namespace muster::coordinator {

Demand DemandOf(const v1::JobSpec& spec) {
  return {.shape = spec.shape(),
          .prepares = job::NeedsPreparation(spec),
          .container = !spec.container().image().empty(),
          .has_store = spec.rendezvous() == v1::RENDEZVOUS_KIND_MUSTER,
          .precision = job::PrecisionOf(spec)};
}

std::string Demand::Key() const {
  return absl::StrCat(shape.SerializeAsString(), "\n", prepares, container, has_store, precision);
}

}  // namespace muster::coordinator
