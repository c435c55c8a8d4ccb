// Failed saves that no later call can report: run_main makes an exit code of them. Any thread.
#pragma once

#include <string>

namespace muster {

// A save has failed, and the run ends.
void note_lost_save(const std::string& error);

// The first error noted in this process; empty if there is none.
std::string lost_save();

}  // namespace muster
