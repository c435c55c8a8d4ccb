// What a rank said last, where that tells why it ended. Pure.
#pragma once

#include <string>
#include <string_view>

#include "muster/v1/job.pb.h"

namespace muster::coordinator {

// An exception's last line ("ValueError: …", "what():  …"), a message of level error or fatal, what
// shells, the C library, sanitizers and accelerators' libraries say of a failure. Not: a warning, a
// progress bar, a count ("errors: 0") or a measure ("error: 0.25"), or whatever else a program says
// as it goes ("Using config foo").
bool ReadsAsError(std::string_view line);

// What the sentence about its end quotes: what its error file says; or else the last line of its
// stderr that reads as an error, of those that came just before the end. Empty when there is none,
// when Muster had asked it to stop, and when a signal that people send ended it: then that is why.
std::string LastWords(const v1::RankExit& exit);

// A signal that people send, rather than one that a process earns itself, as SIGSEGV.
bool IsSentByPeople(int signal);

}  // namespace muster::coordinator
