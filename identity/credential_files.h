// The credentials from the enrolment of a node or a person, as one file of mode 0600 that OpenSSL's
// tools can read too: a few lines "name: value", then the private key, its certificate and the cluster's
// authority in PEM. The key is never sent anywhere. One file, so that a crash leaves all old or all new.
// Any thread; one writer.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::identity {

struct Credentials {
  std::string key_pem;
  std::string certificate_pem;
  std::string authority_pem;
  std::string cluster;
  std::string name;  // of the node or the user
  // Each may name several, separated by commas, if coordinators replace each other.
  std::string endpoint;  // HOST:PORT of gRPC
  std::string http;      // HOST:PORT of HTTPS, which renews
};

// Makes the file's directory (0700) if it is missing.
absl::Status SaveCredentials(const std::string& path, const Credentials& credentials);
// NOT_FOUND if there is no file; PERMISSION_DENIED if others may read it; DATA_LOSS if it is not
// whole (JC1323).
absl::StatusOr<Credentials> LoadCredentials(const std::string& path);
// From the file's text. INVALID_ARGUMENT names what is missing.
absl::StatusOr<Credentials> ParseCredentials(std::string_view text);

}  // namespace muster::identity
