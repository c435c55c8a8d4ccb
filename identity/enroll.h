// The client's side of enrolment over HTTPS: a node joins, a person signs in, both renew. The private
// key is made here and never sent. Blocks; any thread. Errors are the coordinator's own (JC1335 to
// JC1353, JC1356) or the client's (https_client.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "identity/credential_files.h"
#include "identity/keys.h"

namespace muster::identity {

struct Enrolling {
  std::string address;  // HOST:PORT of the HTTPS listener
  std::string token;    // its text
  std::string node;     // a node's name; empty: a person signs in
  std::chrono::milliseconds within{30'000};
};
// The token's authority is fetched and compared before the token is sent.
absl::StatusOr<Credentials> Enroll(const Enrolling& enrolling);

// A coordinator whose authority is known.
struct Endpoint {
  std::string address;  // HOST:PORT of the HTTPS listener
  std::string authority_pem;
  std::chrono::milliseconds within{30'000};
};
// A sign-in that a person confirms at the cluster's identity provider.
struct DeviceSignIn {
  std::string handle;  // names it to the coordinator; secret
  std::string user_code;
  std::string verification_uri;
  std::string verification_uri_complete;  // empty: none
  std::chrono::seconds interval{0};       // between two polls for the confirmation
  std::chrono::seconds lives{0};
};
absl::StatusOr<DeviceSignIn> BeginSignIn(const Endpoint& endpoint);
// Call it with the same key each time. UNAVAILABLE (JC1363): not confirmed yet.
absl::StatusOr<Credentials> FinishSignIn(const Endpoint& endpoint, const std::string& handle,
                                         const PrivateKey& key);

// What a further coordinator of the cluster needs besides etcd.
struct CoordinatorKeys {
  std::string cluster;
  std::string authority_pem;
  std::string authority_key_pem;
  std::string secrets_key;  // 64 hex digits
  std::string state;        // --state of the leader
};
// `address`: HOST:PORT of the leader's HTTPS listener; `host`: by which this machine will be reached.
absl::StatusOr<CoordinatorKeys> FetchCoordinatorKeys(const std::string& address,
                                                     const std::string& token,
                                                     const std::string& host);

// New credentials for a new key, authorized by the old key.
absl::StatusOr<Credentials> Renew(const Credentials& old, int64_t now_ms,
                                  std::chrono::milliseconds within = std::chrono::seconds(10));

// What the old key signs to renew.
std::string RenewalText(int64_t at_ms, const std::string& csr_pem);

}  // namespace muster::identity
