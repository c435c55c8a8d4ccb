// Authenticated encryption of small values: AES-256-GCM with a random 96-bit nonce. Sealed:
// one byte of version (1), the nonce, the ciphertext, 16 bytes of tag. Any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace muster::coordinator {

inline constexpr size_t kSealKeyBytes = 32;

// `purpose` is authenticated with the value: what was sealed for one cannot be unsealed for another.
std::string SealWith(std::string_view key, std::string_view purpose, std::string_view value);
// DATA_LOSS unless `sealed` is what SealWith made with this key and purpose.
absl::StatusOr<std::string> UnsealWith(std::string_view key, std::string_view purpose,
                                       std::string_view sealed);

}  // namespace muster::coordinator
