// Chooses which of a rank's last lines are quoted next to its end. Pure.
#pragma once

#include <string>

#include "muster/v1/job.pb.h"

namespace muster::client {

// The end of the rank's stderr. For a rank that a signal killed, only the lines of the last seconds, if
// the worker knew their age: what it printed earlier does not explain its death.
std::string LinesToQuote(const v1::RankExit& exit);

}  // namespace muster::client
