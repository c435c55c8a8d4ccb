#include "coordinator/identity/seal.h"

#include <openssl/evp.h>

#include <cstdlib>
#include <memory>

#include "identity/keys.h"

namespace muster::coordinator {
namespace {

constexpr char kVersion = 1;
constexpr size_t kNonceBytes = 12;
constexpr size_t kTagBytes = 16;

using Context = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

Context NewContext() { return {EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free}; }

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

unsigned char* Bytes(std::string& text, size_t from) {
  return reinterpret_cast<unsigned char*>(text.data() + from);
}

}  // namespace

std::string SealWith(std::string_view key, std::string_view purpose, std::string_view value) {
  const Context context = NewContext();
  const std::string nonce = identity::RandomBytes(kNonceBytes);
  std::string sealed = kVersion + nonce;
  const size_t at = sealed.size();
  sealed.resize(at + value.size() + kTagBytes);
  int size = 0;
  const bool done =
      key.size() == kSealKeyBytes &&
      EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, Bytes(key), Bytes(nonce)) ==
          1 &&
      EVP_EncryptUpdate(context.get(), nullptr, &size, Bytes(purpose),
                        static_cast<int>(purpose.size())) == 1 &&
      EVP_EncryptUpdate(context.get(), Bytes(sealed, at), &size, Bytes(value),
                        static_cast<int>(value.size())) == 1 &&
      EVP_EncryptFinal_ex(context.get(), Bytes(sealed, at + value.size()), &size) == 1 &&
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes,
                          Bytes(sealed, at + value.size())) == 1;
  if (!done) std::abort();  // never return an unsealed value
  return sealed;
}

absl::StatusOr<std::string> UnsealWith(std::string_view key, std::string_view purpose,
                                       std::string_view sealed) {
  constexpr size_t kLeast = 1 + kNonceBytes + kTagBytes;
  if (sealed.size() < kLeast || sealed.front() != kVersion || key.size() != kSealKeyBytes) {
    return absl::DataLossError("not a sealed value");
  }
  const Context context = NewContext();
  const std::string_view nonce = sealed.substr(1, kNonceBytes);
  const std::string_view body = sealed.substr(1 + kNonceBytes, sealed.size() - kLeast);
  std::string tag(sealed.substr(sealed.size() - kTagBytes));
  std::string value(body.size(), '\0');
  int size = 0;
  const bool done =
      EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, Bytes(key), Bytes(nonce)) ==
          1 &&
      EVP_DecryptUpdate(context.get(), nullptr, &size, Bytes(purpose),
                        static_cast<int>(purpose.size())) == 1 &&
      EVP_DecryptUpdate(context.get(), Bytes(value, 0), &size, Bytes(body),
                        static_cast<int>(body.size())) == 1 &&
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, Bytes(tag, 0)) == 1 &&
      EVP_DecryptFinal_ex(context.get(), Bytes(tag, 0), &size) == 1;
  if (!done) return absl::DataLossError("it was sealed with another key, or changed");
  return value;
}

}  // namespace muster::coordinator
