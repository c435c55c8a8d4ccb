#include "coordinator/oidc/keys.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>

#include <memory>
#include <utility>

#include "common/base/status.h"
#include "identity/openssl_text.h"

namespace muster::coordinator::oidc {
namespace {

constexpr size_t kCoordinateBytes = 32;
constexpr int kRsaBitsLeast = 2048;
constexpr int kRsaBitsMost = 8192;
constexpr int kExponentBitsMost = 32;

using identity::Freed;
using Number = std::unique_ptr<BIGNUM, Freed<BN_free>>;
using Builder = std::unique_ptr<OSSL_PARAM_BLD, Freed<OSSL_PARAM_BLD_free>>;
using Parameters = std::unique_ptr<OSSL_PARAM, Freed<OSSL_PARAM_free>>;
using Context = std::unique_ptr<EVP_PKEY_CTX, Freed<EVP_PKEY_CTX_free>>;
using Digest = std::unique_ptr<EVP_MD_CTX, Freed<EVP_MD_CTX_free>>;
using Signature = std::unique_ptr<ECDSA_SIG, Freed<ECDSA_SIG_free>>;

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Number NumberOf(std::string_view bytes) {
  return Number(BN_bin2bn(Bytes(bytes), static_cast<int>(bytes.size()), nullptr));
}

absl::StatusOr<identity::KeyHandle> KeyFrom(const char* kind, const Builder& builder) {
  const Parameters parameters(OSSL_PARAM_BLD_to_param(builder.get()));
  const Context context(EVP_PKEY_CTX_new_from_name(nullptr, kind, nullptr));
  EVP_PKEY* made = nullptr;
  const bool is_made =
      parameters != nullptr && context != nullptr && EVP_PKEY_fromdata_init(context.get()) == 1 &&
      EVP_PKEY_fromdata(context.get(), &made, EVP_PKEY_PUBLIC_KEY, parameters.get()) == 1;
  identity::KeyHandle key(made, EVP_PKEY_free);
  ERR_clear_error();
  if (!is_made) return absl::InvalidArgumentError("OpenSSL does not take it");
  return key;
}

absl::StatusOr<identity::KeyHandle> MakeRsa(const WrittenKey& written) {
  const Number n = NumberOf(written.first);
  const Number e = NumberOf(written.second);
  const Builder builder(OSSL_PARAM_BLD_new());
  if (n == nullptr || e == nullptr || builder == nullptr)
    return absl::ResourceExhaustedError("no memory");
  // The cost of verification grows with the cube of the bits.
  if (BN_num_bits(n.get()) < kRsaBitsLeast || BN_num_bits(n.get()) > kRsaBitsMost)
    return absl::InvalidArgumentError("an RSA key has 2048 to 8192 bits");
  if (!BN_is_odd(e.get()) || BN_is_one(e.get()) || BN_num_bits(e.get()) > kExponentBitsMost)
    return absl::InvalidArgumentError("its exponent is not a usual one");
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get());
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get());
  return KeyFrom("RSA", builder);
}

absl::StatusOr<identity::KeyHandle> MakeP256(const WrittenKey& written) {
  if (written.first.size() != kCoordinateBytes || written.second.size() != kCoordinateBytes)
    return absl::InvalidArgumentError("a coordinate of P-256 has 32 bytes");
  const Builder builder(OSSL_PARAM_BLD_new());
  if (builder == nullptr) return absl::ResourceExhaustedError("no memory");
  const std::string point = "\x04" + written.first + written.second;
  OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0);
  OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                   point.size());
  ASSIGN_OR_RETURN(identity::KeyHandle key, KeyFrom("EC", builder));
  const Context context(EVP_PKEY_CTX_new_from_pkey(nullptr, key.get(), nullptr));
  const bool is_valid = context != nullptr && EVP_PKEY_public_check(context.get()) == 1;
  ERR_clear_error();
  if (!is_valid) return absl::InvalidArgumentError("its point is not on P-256");
  return key;
}

// The two numbers of 32 bytes in the form that OpenSSL takes; empty if `raw` is something else.
std::string DerOf(std::string_view raw) {
  const Signature signature(ECDSA_SIG_new());
  if (raw.size() != 2 * kCoordinateBytes || signature == nullptr) return "";
  Number r = NumberOf(raw.substr(0, kCoordinateBytes));
  Number s = NumberOf(raw.substr(kCoordinateBytes));
  if (r == nullptr || s == nullptr || ECDSA_SIG_set0(signature.get(), r.get(), s.get()) != 1)
    return "";
  static_cast<void>(r.release());
  static_cast<void>(s.release());
  unsigned char* der = nullptr;
  const int size = i2d_ECDSA_SIG(signature.get(), &der);
  std::string bytes(reinterpret_cast<const char*>(der), size > 0 ? static_cast<size_t>(size) : 0);
  OPENSSL_free(der);
  return bytes;
}

}  // namespace

absl::StatusOr<Key> MakeKey(const WrittenKey& written) {
  Key key{.id = written.id, .is_rsa = written.is_rsa, .key = nullptr};
  ASSIGN_OR_RETURN(key.key, written.is_rsa ? MakeRsa(written) : MakeP256(written));
  return key;
}

std::vector<Key> MakeKeys(const std::vector<WrittenKey>& written) {
  std::vector<Key> keys;
  for (const WrittenKey& each : written) {
    absl::StatusOr<Key> key = MakeKey(each);
    if (key.ok()) keys.push_back(*std::move(key));
  }
  return keys;
}

bool IsSignedWith(const Key& key, std::string_view bytes, std::string_view signature) {
  const std::string der = key.is_rsa ? std::string(signature) : DerOf(signature);
  const Digest digest(EVP_MD_CTX_new());
  const bool is_signed =
      digest != nullptr && !der.empty() &&
      EVP_DigestVerifyInit(digest.get(), nullptr, EVP_sha256(), nullptr, key.key.get()) == 1 &&
      EVP_DigestVerify(digest.get(), Bytes(der), der.size(), Bytes(bytes), bytes.size()) == 1;
  ERR_clear_error();
  return is_signed;
}

}  // namespace muster::coordinator::oidc
