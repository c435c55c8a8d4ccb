// What the runtimes of an attempt's containers run when they have mounted everything, before the
// programs start: all wait for all. The containers share one layer, and what a program does there must
// not meet a runtime that still makes mount points in it, as root.
#pragma once

namespace muster::shim {

// `directory`: where the hooks of one attempt meet, closed to everybody else; `count`: how many they
// are. Returns an exit code; not 0, with the reason on stderr, if the others do not come.
int WaitAtBarrier(const char* directory, int count);

}  // namespace muster::shim
