// A person's credentials for a cluster, as jobctl keeps them: one file for each context beside
// config.yaml, mode 0600. Main thread, and one that renews them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/session/settings.h"
#include "identity/credential_files.h"

namespace muster::client {

// Where a context's credentials are: CONFIG-DIR/credentials/CONTEXT.
std::string CredentialsPath(const ConfigFile& file, const std::string& context);

// Saves the credentials and a context of this name, and makes it the current one.
absl::Status SelectContext(const std::string& context, const identity::Credentials& credentials);

// What to connect with: null if the server is a socket, or the user has not signed in to it. Renews
// credentials that have less than half of their life left; a coordinator that does not answer delays
// that by two seconds, once in five minutes. UNAUTHENTICATED (JC1357): expired.
absl::StatusOr<std::shared_ptr<const identity::Credentials>> CredentialsFor(
    const Settings& settings, int64_t now_ms);

// Renews them while a command runs for longer than they live: the coordinator ends a connection with
// its certificate, and the next one needs new credentials. Owns one thread.
class SignInRenewal {
 public:
  // The settings must outlive this.
  SignInRenewal(const Settings& settings, const identity::Credentials& credentials);
  ~SignInRenewal();

 private:
  void Run(const Settings& settings, std::chrono::milliseconds pause);

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

// Parts of the above that need no coordinator. Pure.
enum class SignInState { kFresh, kRenew, kExpired };
struct SignInLife {
  int64_t from_ms = 0;
  int64_t until_ms = 0;
};
SignInState StateOf(const SignInLife& life, int64_t now_ms);

}  // namespace muster::client
