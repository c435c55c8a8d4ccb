#include "coordinator/core/scheduling/demand.h"

#include "absl/strings/str_cat.h"
#include "common/job/code.h"
#include "common/job/precision.h"

namespace muster::coordinator {

Demand DemandOf(const v1::JobSpec& spec) {
  return {.shape = spec.shape(),
          .prepares = job::NeedsPreparation(spec),
          .container = !spec.container().image().empty(),
          .precision = job::PrecisionOf(spec)};
}

std::string Demand::Key() const {
  return absl::StrCat(shape.SerializeAsString(), "\n", prepares, container, precision);
}

}  // namespace muster::coordinator
