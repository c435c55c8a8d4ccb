#include "common/hash/sha256.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "absl/strings/escaping.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"

namespace muster::common {

struct Sha256::Context {
  EVP_MD_CTX* digest = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(digest); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  // Fails only if memory runs out, whatever the bytes are; no caller could do without the hash.
  CHECK(EVP_DigestInit_ex(context_->digest, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;

void Sha256::Update(std::string_view bytes) {
  // As above: no content and no length makes it fail.
  CHECK(EVP_DigestUpdate(context_->digest, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::FinishHex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  // As above: the context was initialized, and is finished only once.
  CHECK(EVP_DigestFinal_ex(context_->digest, digest, &size) == 1);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size));
}

std::string Sha256Hex(std::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.FinishHex();
}

absl::StatusOr<std::string> Sha256HexOfFile(const std::string& path) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenRegular(path, O_RDONLY));
  Sha256 hash;
  std::vector<char> buffer(1 << 20);
  while (true) {
    const ssize_t count = read(fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(StrCat("cannot read ", path));
    if (count == 0) return hash.FinishHex();
    hash.Update({buffer.data(), static_cast<size_t>(count)});
  }
}

bool IsSha256Hex(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace muster::common
