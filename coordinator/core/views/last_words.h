// What a rank printed last, if it explains why it ended. Pure.
#pragma once

#include <string>
#include <vector>

#include "muster/v1/job.pb.h"

namespace muster::coordinator {

// What to quote in the sentence about its end: the contents of its error file, otherwise the last
// line of its stderr that reads as an error among those written just before the end. Empty if there
// is none, if Muster asked it to stop, and if a signal that people send ended it, because that is
// the reason then.
std::string LastWords(const v1::RankExit& exit);

// The lines of its stderr that it wrote just before the end, in their order; all that are known
// where an older worker does not report their age.
std::vector<std::string> FreshLines(const v1::RankExit& exit);

// True for a signal that people send, rather than one that a process causes itself, like SIGSEGV.
bool IsSentByPeople(int signal);

}  // namespace muster::coordinator
