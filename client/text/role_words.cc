#include "client/text/role_words.h"

#include "absl/strings/ascii.h"
#include "common/text/strings.h"

namespace muster::client {

std::string RoleWord(v1::Role role) {
  constexpr std::string_view kPrefix = "ROLE_";
  if (role == v1::ROLE_UNSPECIFIED) return "none";
  const std::string& name = v1::Role_Name(role);
  return absl::AsciiStrToLower(name.size() > kPrefix.size() ? name.substr(kPrefix.size()) : name);
}

v1::Role RoleOfWord(std::string_view word) {
  v1::Role role = v1::ROLE_UNSPECIFIED;
  v1::Role_Parse(absl::AsciiStrToUpper(common::StrCat("ROLE_", word)), &role);
  return role;
}

}  // namespace muster::client
