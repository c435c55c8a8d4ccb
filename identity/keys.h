// Private keys: ECDSA on P-256, which every TLS library has and which signs in tens of
// microseconds. Any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct evp_pkey_st;

namespace muster::identity {

// OpenSSL's key, private or only its public part.
using KeyHandle = std::shared_ptr<evp_pkey_st>;

class PrivateKey {
 public:
  static PrivateKey Generate();
  // INVALID_ARGUMENT unless it is an unencrypted P-256 key.
  static absl::StatusOr<PrivateKey> FromPem(std::string_view pem);
  // PKCS #8. Secret: only for files of mode 0600.
  std::string ToPem() const;
  // A signature over `bytes`: ECDSA with SHA-256, DER.
  std::string Sign(std::string_view bytes) const;
  const KeyHandle& handle() const { return key_; }

 private:
  explicit PrivateKey(KeyHandle key) : key_(std::move(key)) {}
  KeyHandle key_;
};

// Whether the key is one that we accept from others: ECDSA on P-256.
bool IsP256(const evp_pkey_st* key);
// SHA-256 of the SubjectPublicKeyInfo in DER, 32 bytes.
std::string PublicKeyHash(evp_pkey_st* key);
// An Ed25519 public key, the kind that signs packages. INVALID_ARGUMENT: it is not one.
absl::StatusOr<KeyHandle> SigningKeyFromPem(std::string_view pem);
// A signature over the bytes themselves, as Ed25519's is.
bool IsSignedAsIs(evp_pkey_st* key, std::string_view bytes, std::string_view signature);
bool IsSignedBy(evp_pkey_st* key, std::string_view bytes, std::string_view signature);
// The text of OpenSSL's oldest error in this thread; clears its errors.
std::string WhyOpenSslFailed();
// `count` bytes from OpenSSL's generator; aborts the process if it has none.
std::string RandomBytes(size_t count);

}  // namespace muster::identity
