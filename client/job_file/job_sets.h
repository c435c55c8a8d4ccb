// `--set KEY=VALUE`: keys applied to a job file before it is interpreted. Pure.
#pragma once

#include <string>
#include <vector>

#include "client/job_file/yaml.h"

namespace muster::client {

// Inserts each "a.b=value" into the tree, as if it had been written in the file.
void ApplySets(const std::vector<std::string>& sets, YamlNode* root,
               std::vector<YamlProblem>* problems);
// A problem with a --set, found here or by the reader, has no line: it is reported by the --set.
void NameSets(const std::vector<std::string>& sets, std::vector<YamlProblem>* problems);

}  // namespace muster::client
