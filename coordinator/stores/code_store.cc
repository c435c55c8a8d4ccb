#include "coordinator/stores/code_store.h"

#include "muster/v1/job.pb.h"

namespace muster::coordinator {

std::string ProjectName(std::string_view project) {
  return std::string(project.empty() ? "default" : project);
}

CodeName CodeNameOf(const v1::JobSpec& spec) {
  return {.project = ProjectName(spec.project()),
          .tree = spec.code().tree(),
          .placement = spec.code().placement()};
}

}  // namespace muster::coordinator
