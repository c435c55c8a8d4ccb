// `jobctl login --oidc`: a person confirms the sign-in in a browser, at the cluster's identity
// provider. Main thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/command_line/arguments.h"
#include "client/session/session.h"
#include "identity/credential_files.h"

namespace muster::client {

// The coordinator's authority is, in this order: that of --authority, that of a context that signed
// in to this address, or one that a person confirms on a terminal. Errors: JC1367: there is none.
absl::StatusOr<identity::Credentials> LoginAtProvider(Session& session, const Arguments& arguments,
                                                      const std::string& address);

// The 64 hex digits, in lower case, of "SHA256:AB:CD…" in any form that people copy. INVALID_ARGUMENT
// (JC1004). Pure.
absl::StatusOr<std::string> ReadFingerprint(std::string_view text);

}  // namespace muster::client
