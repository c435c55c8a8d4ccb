// Where this node reaches the coordinator, and the credentials that it presents. Immutable; equal routes
// need no new channel.
#pragma once

#include <memory>
#include <string>

#include "identity/credential_files.h"

namespace muster::worker {

struct Route {
  std::string endpoint;  // "unix:/path" or "HOST:PORT"
  // Null: not encrypted.
  std::shared_ptr<const identity::Credentials> credentials;

  bool operator==(const Route&) const = default;
};

}  // namespace muster::worker
