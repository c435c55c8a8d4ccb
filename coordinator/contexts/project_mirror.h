// The scheduler's copy of what projects may have of the devices: the directory of identities has them, and the control
// loop gets all of them after each change, and when it starts. Any thread.
#pragma once

#include <mutex>

namespace muster::coordinator {

struct Jobs;
class Directory;

class ProjectMirror {
 public:
  // Both outlive the loop's answer. Of concurrent changes the loop gets the newest last.
  void Mirror(Jobs& jobs, const Directory& directory);

 private:
  std::mutex mutex_;  // from reading the directory until the loop's queue has it
};

}  // namespace muster::coordinator
