// A person's credentials for a cluster, as jobctl keeps them: one file for each context beside
// config.yaml, mode 0600. Main thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/settings.h"
#include "identity/credential_files.h"

namespace muster::client {

// Where a context's are: CONFIG-DIR/credentials/CONTEXT.
std::string CredentialsPath(const ConfigFile& file, const std::string& context);

// What to connect with: null if the server is a socket, or nobody signed in to it. Renewed on the way
// if less than half of their life is left; a coordinator that does not answer delays that by two
// seconds, once in five minutes. UNAUTHENTICATED (JC1357): expired.
absl::StatusOr<std::shared_ptr<const identity::Credentials>> CredentialsFor(
    const Settings& settings, int64_t now_ms);

// Parts of the above that need no coordinator. Pure.
enum class SignInState { kFresh, kRenew, kExpired };
struct SignInLife {
  int64_t from_ms = 0;
  int64_t until_ms = 0;
};
SignInState StateOf(const SignInLife& life, int64_t now_ms);

}  // namespace muster::client
