// What a rank printed last, if it explains why it ended. Pure.
#pragma once

#include <string>
#include <vector>

#include "muster/v1/job.pb.h"

namespace muster::coordinator {

// The text to quote in the sentence about the rank's end: the contents of its error file, otherwise
// the last line that reads as an error among the stderr lines written just before the end. Empty if
// there is none, if Muster asked the rank to stop, or if a signal that people send ended it,
// because then the signal is the reason.
std::string LastWords(const v1::RankExit& exit);

// The stderr lines that it wrote just before the end, in order; all known lines if an older worker
// does not report their age.
std::vector<std::string> FreshLines(const v1::RankExit& exit);

// True for a signal that people send, rather than one that a process causes itself, like SIGSEGV.
bool IsSentByPeople(int signal);

}  // namespace muster::coordinator
