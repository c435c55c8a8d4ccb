// Ports for servers that a test starts.
#pragma once

namespace muster::testing {

// One of this host that no other test gets while this process lives (free_port.py has the same, and why); aborts if
// there is none. Any thread.
int FreePort();

}  // namespace muster::testing
