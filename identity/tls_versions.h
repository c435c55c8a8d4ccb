// gRPC 1.51 has no option for the least version of TLS.
#pragma once

namespace muster::identity {

// From here on gRPC in this process speaks TLS 1.3 alone: for 1.2 it is left with one cipher suite
// that needs a shared key, which nobody has. Before any thread is started (it sets a variable of the
// environment).
void SpeakTls13Only();

}  // namespace muster::identity
