#include "coordinator/core/scheduling/demand.h"

#include "absl/strings/str_cat.h"
#include "common/job/code.h"

namespace muster::coordinator {

Demand DemandOf(const v1::JobSpec& spec) {
  return {.shape = spec.shape(),
          .prepares = job::NeedsPreparation(spec),
          .container = !spec.container().image().empty(),
          .has_store = spec.rendezvous() == v1::RENDEZVOUS_KIND_MUSTER};
}

std::string Demand::Key() const {
  return absl::StrCat(shape.SerializeAsString(), "\n", prepares, container, has_store);
}

}  // namespace muster::coordinator
