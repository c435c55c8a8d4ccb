#include "coordinator/stores/objects.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

bool IsOfKeyName(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

absl::Status BadKey(std::string_view key, std::string_view why) {
  return absl::InvalidArgumentError(
      StrCat("\"", key.substr(0, Objects::kKeyBytesMax), "\" is not an object's key: ", why));
}

}  // namespace

absl::Status CheckObjectKey(std::string_view key) {
  if (key.empty() || key.size() > Objects::kKeyBytesMax)
    return BadKey(key, StrCat("a key has 1 to ", Objects::kKeyBytesMax, " bytes"));
  for (std::string_view rest = key;;) {
    const size_t slash = rest.find('/');
    const std::string_view name = rest.substr(0, slash);
    if (name.empty() || name.size() > Objects::kKeyNameBytesMax) {
      return BadKey(key,
                    StrCat("between its slashes are 1 to ", Objects::kKeyNameBytesMax, " bytes"));
    }
    if (name.front() == '.') return BadKey(key, "no name in it begins with a dot");
    if (!std::all_of(name.begin(), name.end(), IsOfKeyName))
      return BadKey(key, "its names have letters, digits, '-', '_' and '.' alone");
    if (slash == std::string_view::npos) return absl::OkStatus();
    rest.remove_prefix(slash + 1);
  }
}

absl::Status CheckObjectPrefix(std::string_view prefix) {
  if (prefix.ends_with('/')) prefix.remove_suffix(1);
  return prefix.empty() ? absl::OkStatus() : CheckObjectKey(prefix);
}

absl::Status CheckPartNumber(int number) {
  if (number >= 1 && number <= Objects::kPartsMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      StrCat("part ", number, ": parts have numbers from 1 to ", Objects::kPartsMax));
}

absl::Status CheckPutSize(std::string_view key, uint64_t size) {
  if (size <= Objects::kPutBytesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      StrCat(key, " has ", size, " bytes: at most ", Objects::kPutBytesMax, " are put at once"));
}

absl::StatusOr<uint64_t> CheckParts(const std::vector<ObjectPart>& parts) {
  if (parts.empty()) return absl::InvalidArgumentError("an object is not made of 0 parts");
  uint64_t size = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const ObjectPart& part = parts[i];
    RETURN_IF_ERROR(CheckPartNumber(part.number));
    if (part.number != static_cast<int>(i) + 1)
      return absl::InvalidArgumentError(
          StrCat("part ", i + 1, " is missing before part ", part.number));
    if (part.size > Objects::kPutBytesMax ||
        (i + 1 < parts.size() && part.size < Objects::kPartBytesMin)) {
      return absl::InvalidArgumentError(StrCat(
          "part ", part.number, " has ", part.size, " bytes: parts have ", Objects::kPartBytesMin,
          " to ", Objects::kPutBytesMax, ", the last one may have less"));
    }
    size += part.size;
  }
  if (size <= Objects::kObjectBytesMax) return size;
  return absl::InvalidArgumentError(
      StrCat("its parts have ", size, " bytes: an object has at most ", Objects::kObjectBytesMax));
}

uint64_t PartBytesFor(uint64_t size) {
  constexpr uint64_t kUnit = 1 << 20;
  const uint64_t least = (size + Objects::kPartsMax - 1) / Objects::kPartsMax;
  return std::max(Objects::kPartBytesMin, (least + kUnit - 1) / kUnit * kUnit);
}

absl::StatusOr<std::string> Objects::Read(const std::string& key, const Range& range) {
  if (range.size > kReadBytesMax) {
    return absl::InvalidArgumentError(
        StrCat("reading ", range.size, " bytes of ", key, ": at most ", kReadBytesMax, " at once"));
  }
  std::string bytes;
  RETURN_IF_ERROR(Fetch(key, range, [&bytes](std::string_view piece) {
    bytes.append(piece);
    return absl::OkStatus();
  }));
  return bytes;
}

}  // namespace muster::coordinator
