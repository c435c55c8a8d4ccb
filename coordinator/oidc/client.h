// This cluster as a client of an OpenID Connect provider, from the command line.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/text/url.h"

namespace muster::coordinator::oidc {

// Flags of muster-coordinator.
struct Settings {
  std::string issuer;  // empty: no one signs in this way
  std::string client_id;
  std::string secret_file;
  std::string scope = "openid";
};

struct Client {
  std::string issuer;
  std::string client_id;
  std::string secret;  // empty: a public client
  std::string scope;
};

// INVALID_ARGUMENT without a code: which flag is missing or wrong, and what to write instead. Pure.
absl::Status CheckSettings(const Settings& settings);
// Reads the secret's file. PERMISSION_DENIED if others may read it, DATA_LOSS if it holds no secret
// (JC1368).
absl::StatusOr<Client> ReadClient(const Settings& settings);

// A URL that secrets may be sent to: https, or http to this machine. Pure.
absl::StatusOr<common::HttpUrl> ReadEndpoint(std::string_view text);
// The same check for the address that its host was resolved to.
absl::Status CheckAddress(const common::HttpUrl& endpoint, const sockaddr* address);

}  // namespace muster::coordinator::oidc
