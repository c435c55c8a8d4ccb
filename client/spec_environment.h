// What a job takes from where jobctl runs: its environment and its working directory.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace muster::v1 {
class JobSpec;
}

namespace muster::client {

class Session;

// Empty when it is not set.
std::string Variable(std::string_view name);
// $PWD when it is this directory: it keeps the name under which people know it.
std::string WorkingDirectory();
// The whole environment, or (`clean`) the few variables that programs cannot do without. What
// cannot be sent is named on stderr.
void AddEnvironment(bool clean, Session& session, v1::JobSpec* spec);
// The values of -e NAME=VALUE; NAME alone takes the value from here. Errors: JC1004.
absl::Status AddVariables(const std::vector<std::string>& settings, v1::JobSpec* spec);

}  // namespace muster::client
