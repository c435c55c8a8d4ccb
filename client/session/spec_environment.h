// What a job inherits from where jobctl runs: its environment and its working directory.
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

// Empty if not set.
std::string Variable(std::string_view name);
// $PWD if it names this directory: it keeps the path that the user knows.
std::string WorkingDirectory();
enum class EnvironmentSent {
  kAll,
  kUsual,  // what programs and training need, and what the context's env_pass names
  kLeast,  // PATH, HOME and the like
};
// On this machine all of it, unless the user selects. Another host must not get a token by accident.
EnvironmentSent UsualOf(const Session& session);
// Returns the names that kUsual leaves out. Lists on stderr what cannot be sent.
std::vector<std::string> AddEnvironment(EnvironmentSent sent, Session& session, v1::JobSpec* spec);
// Reports on stderr how many of these the job does not name either.
void NoteLeftOut(Session& session, const std::vector<std::string>& left_out,
                 const v1::JobSpec& spec);
// The values of -e NAME=VALUE; NAME alone takes the value from the current environment. Errors:
// JC1004.
absl::Status AddVariables(const std::vector<std::string>& settings, v1::JobSpec* spec);

}  // namespace muster::client
