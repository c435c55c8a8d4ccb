#include "coordinator/contexts/project_mirror.h"

#include <utility>

#include "coordinator/contexts/contexts.h"
#include "coordinator/identity/directory.h"

namespace muster::coordinator {

void ProjectMirror::Mirror(Jobs& jobs, const Directory& directory) {
  std::lock_guard lock(mutex_);
  ProjectsInput input;
  for (const v1::Project& project : directory.Projects()) {
    const bool limits_people = !project.person_limit().empty() || project.person_jobs() > 0;
    if (project.quota().empty() && project.limit().empty() && project.weight() <= 1 &&
        !limits_people && !project.has_max_priority()) {
      continue;
    }
    v1::ProjectShare& share = *input.projects.add_projects();
    share.set_name(project.name());
    *share.mutable_quota() = project.quota();
    *share.mutable_limit() = project.limit();
    share.set_weight(project.weight() == 0 ? 1 : project.weight());
    *share.mutable_person_limit() = project.person_limit();
    share.set_person_jobs(project.person_jobs());
    if (project.has_max_priority()) share.set_max_priority(project.max_priority());
  }
  jobs.loop.Say(std::move(input));
}

}  // namespace muster::coordinator
