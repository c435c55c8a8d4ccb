// Reads a server's XML: foreign bytes, into a tree within bounds. A document type is refused, and with it entities.
// Pure except for expat.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::coordinator::s3 {

// limit: object stores: XML of an answer; UNAVAILABLE, as a broken answer is
inline constexpr size_t kXmlBytesMax = 4 << 20;
// limit: object stores: elements within each other in it; likewise
inline constexpr size_t kXmlDepthMax = 16;
// limit: object stores: elements in it; likewise
inline constexpr size_t kXmlElementsMax = 50'000;

struct XmlElement {
  std::string name;  // without the prefix of its namespace
  std::string text;  // of it alone
  std::vector<XmlElement> children;

  // Null: it has no child of this name.
  const XmlElement* Child(std::string_view child) const;
  // Empty: likewise.
  std::string_view TextOf(std::string_view child) const;
};

// The root. INVALID_ARGUMENT: why not.
absl::StatusOr<XmlElement> ParseXml(std::string_view text);

}  // namespace muster::coordinator::s3
