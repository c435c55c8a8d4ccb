// The key `notify` of a job file: a list of {on, webhook, secret_env} or {on, command}. Pure.
#pragma once

#include <vector>

#include "client/job_file/yaml.h"

namespace muster::v1 {
class JobSpec;
}

namespace muster::client {

// Fills spec->notify; appends what is wrong to `problems`.
void ReadNotify(const YamlNode& node, v1::JobSpec* spec, std::vector<YamlProblem>* problems);

}  // namespace muster::client
