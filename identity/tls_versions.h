// gRPC 1.51 has no option for the minimum TLS version.
#pragma once

namespace muster::identity {

// From here on, gRPC in this process speaks only TLS 1.3: for 1.2 it keeps one cipher suite, which needs
// a shared key that no peer has. Call it before any thread starts (it sets an environment variable).
void SpeakTls13Only();

}  // namespace muster::identity
