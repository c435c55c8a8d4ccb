#include "coordinator/contexts/project_mirror.h"

#include <utility>

#include "coordinator/contexts/contexts.h"
#include "coordinator/identity/directory.h"

namespace muster::coordinator {

void ProjectMirror::Mirror(Jobs& jobs, const Directory& directory) {
  std::lock_guard lock(mutex_);
  ProjectsInput input;
  for (const v1::Project& project : directory.Projects()) {
    if (project.quota().empty() && project.limit().empty() && project.weight() <= 1) continue;
    v1::ProjectShare& share = *input.projects.add_projects();
    share.set_name(project.name());
    *share.mutable_quota() = project.quota();
    *share.mutable_limit() = project.limit();
    share.set_weight(project.weight() == 0 ? 1 : project.weight());
  }
  jobs.loop.Say(std::move(input));
}

}  // namespace muster::coordinator
