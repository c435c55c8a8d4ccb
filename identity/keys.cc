#include "identity/keys.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>

#include <cstdlib>
#include <utility>

#include "common/text/strings.h"
#include "identity/openssl_text.h"

namespace muster::identity {
namespace {

void Must(bool done) {
  // Only about our own keys and random numbers; a daemon that cannot make them must not continue.
  if (!done) std::abort();
}

KeyHandle Own(EVP_PKEY* key) { return {key, EVP_PKEY_free}; }

// `digest`: the signature is over this digest of the bytes; null: over the bytes themselves.
bool IsSigned(evp_pkey_st* key, const EVP_MD* digest, std::string_view bytes,
              std::string_view signature) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  const bool is_signed =
      EVP_DigestVerifyInit(context.get(), nullptr, digest, nullptr, key) == 1 &&
      EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature.data()),
                       signature.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                       bytes.size()) == 1;
  ERR_clear_error();
  return is_signed;
}

}  // namespace

PrivateKey PrivateKey::Generate() {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  Must(key != nullptr);
  return PrivateKey(Own(key));
}

absl::StatusOr<PrivateKey> PrivateKey::FromPem(std::string_view pem) {
  const BioHandle in = Reading(pem);
  // The callback refuses encrypted keys instead of asking the terminal.
  const auto no_password = [](char*, int, int, void*) { return -1; };
  KeyHandle key = Own(PEM_read_bio_PrivateKey(in.get(), nullptr, no_password, nullptr));
  if (key == nullptr) {
    return absl::InvalidArgumentError(common::StrCat("not a private key: ", WhyOpenSslFailed()));
  }
  if (!IsP256(key.get())) return absl::InvalidArgumentError("not a P-256 key");
  return PrivateKey(std::move(key));
}

std::string PrivateKey::ToPem() const {
  const BioHandle out = Writing();
  Must(PEM_write_bio_PKCS8PrivateKey(out.get(), key_.get(), nullptr, nullptr, 0, nullptr,
                                     nullptr) == 1);
  return TextOf(out);
}

std::string PrivateKey::Sign(std::string_view bytes) const {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  size_t size = 0;
  Must(EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key_.get()) == 1 &&
       EVP_DigestSign(context.get(), nullptr, &size, data, bytes.size()) == 1);
  std::string signature(size, '\0');
  Must(EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                      data, bytes.size()) == 1);
  signature.resize(size);
  return signature;
}

bool IsP256(const evp_pkey_st* key) {
  char group[32] = {};
  return EVP_PKEY_is_a(key, "EC") == 1 &&
         EVP_PKEY_get_group_name(key, group, sizeof group, nullptr) == 1 &&
         std::string_view(group) == "prime256v1";
}

std::string PublicKeyHash(evp_pkey_st* key) {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key, &der);
  Must(size > 0);
  std::string hash(32, '\0');
  const bool done =
      EVP_Digest(der, static_cast<size_t>(size), reinterpret_cast<unsigned char*>(hash.data()),
                 nullptr, EVP_sha256(), nullptr) == 1;
  OPENSSL_free(der);
  Must(done);
  return hash;
}

absl::StatusOr<KeyHandle> SigningKeyFromPem(std::string_view pem) {
  const BioHandle in = Reading(pem);
  KeyHandle key = Own(PEM_read_bio_PUBKEY(in.get(), nullptr, nullptr, nullptr));
  if (key == nullptr)
    return absl::InvalidArgumentError(common::StrCat("not a public key: ", WhyOpenSslFailed()));
  if (EVP_PKEY_is_a(key.get(), "ED25519") != 1)
    return absl::InvalidArgumentError("not an Ed25519 key");
  return key;
}

bool IsSignedAsIs(evp_pkey_st* key, std::string_view bytes, std::string_view signature) {
  return IsSigned(key, nullptr, bytes, signature);
}

bool IsSignedBy(evp_pkey_st* key, std::string_view bytes, std::string_view signature) {
  return IsSigned(key, EVP_sha256(), bytes, signature);
}

std::string WhyOpenSslFailed() {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  const char* reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  return reason == nullptr ? "it cannot be read" : reason;
}

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  Must(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) == 1);
  return bytes;
}

}  // namespace muster::identity
