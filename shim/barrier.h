// A barrier that the runtimes of an attempt's containers run after they have mounted everything and
// before the programs start. The containers share one layer, and no program may change it while a
// runtime, which is root, still makes mount points there.
#pragma once

namespace muster::shim {

// `directory`: where the hooks of one attempt meet, closed to all other accounts; `count`: the number of hooks.
// Returns an exit code: not 0 if the others do not arrive, with the reason on stderr.
int WaitAtBarrier(const char* directory, int count);

}  // namespace muster::shim
