// What a rank printed last, if it explains why it ended. Pure.
#pragma once

#include <string>
#include <string_view>

#include "muster/v1/job.pb.h"

namespace muster::coordinator {

// True for an exception's last line ("ValueError: …", "what():  …"), a message of level error or
// fatal, and what shells, the C library, sanitizers and accelerator libraries print on failure.
// False for a warning, a progress bar, a count ("errors: 0"), a measurement ("error: 0.25"), and
// whatever else a program prints in normal operation ("Using config foo").
bool ReadsAsError(std::string_view line);

// What to quote in the sentence about its end: the contents of its error file, otherwise the last
// line of its stderr that reads as an error among those written just before the end. Empty if there
// is none, if Muster asked it to stop, and if a signal that people send ended it, because that is
// the reason then.
std::string LastWords(const v1::RankExit& exit);

// True for a signal that people send, rather than one that a process causes itself, like SIGSEGV.
bool IsSentByPeople(int signal);

}  // namespace muster::coordinator
