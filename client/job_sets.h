// `--set KEY=VALUE`: keys laid over a job file before it is read. Pure.
#pragma once

#include <string>
#include <vector>

#include "client/yaml.h"

namespace muster::client {

// Lays each "a.b=value" over the tree, as if it had been written there.
void ApplySets(const std::vector<std::string>& sets, YamlNode* root,
               std::vector<YamlProblem>* problems);
// What is wrong with a --set, found here or by the reader, has no line: it is named by the --set.
void NameSets(const std::vector<std::string>& sets, std::vector<YamlProblem>* problems);

}  // namespace muster::client
