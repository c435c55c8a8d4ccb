// Roles as people write them. Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "muster/v1/identity.pb.h"

namespace muster::client {

// The values of --role.
inline constexpr std::string_view kRoleChoices = "viewer|user|operator|admin";

// "operator"; "none" for ROLE_UNSPECIFIED.
std::string RoleWord(v1::Role role);
// The role that --role names; its choices were checked.
v1::Role RoleOfWord(std::string_view word);

}  // namespace muster::client
