// SHA-256 (FIPS 180-4) of bytes and files, as 64 lower-case hex digits, as `sha256sum` prints it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace muster::common {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  void Update(std::string_view bytes);
  // Call once.
  std::string FinishHex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string Sha256Hex(std::string_view bytes);
absl::StatusOr<std::string> Sha256HexOfFile(const std::string& path);
// Exactly 64 lower-case hex digits: safe as a file name.
bool IsSha256Hex(std::string_view text);

}  // namespace muster::common
