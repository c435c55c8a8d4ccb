#include "coordinator/core/scheduling/demand.h"

#include "absl/strings/str_cat.h"

namespace muster::coordinator {

bool NeedsPreparation(const v1::JobSpec& spec) {
  return spec.has_code() || !spec.setup().empty() || !spec.container().image().empty();
}

Demand DemandOf(const v1::JobSpec& spec) {
  return {.shape = spec.shape(),
          .prepares = NeedsPreparation(spec),
          .container = !spec.container().image().empty()};
}

std::string Demand::Key() const {
  return absl::StrCat(shape.SerializeAsString(), "\n", prepares, container);
}

}  // namespace muster::coordinator
