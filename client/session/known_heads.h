// A context learns the addresses of its cluster's coordinators: when one of them dies, the next command
// finds another. Main thread.
#pragma once

#include <string>
#include <vector>

#include "muster/v1/job_service.pb.h"

namespace muster::client {

class Settings;

// The addresses that a context should have: those of the coordinators, and the one that was dialed, as
// the others' may be of no use from here (a tunnel). Empty: the coordinator names none. Pure.
std::vector<std::string> AddressesToKeep(const v1::GetServerResponse& server,
                                         const std::string& dialed);

// Writes them into config.yaml, and into the credentials of the context, if these differ. Only a context
// learns; an address that was given for one command, or as a variable, is left alone. A file that cannot
// be written is left as it is.
void KeepHeads(const Settings& settings, const v1::GetServerResponse& server,
               const std::string& dialed);

}  // namespace muster::client
