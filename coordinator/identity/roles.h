// The table of roles: who may make which call. Deny by default: what no row allows is refused. Whether
// a job is the caller's own is checked where jobs are looked up (ownership.h). Pure.
#pragma once

#include <string_view>

#include "common/calls.h"
#include "muster/v1/identity.pb.h"

namespace muster::coordinator {

bool MayCall(v1::Role role, common::Action action, common::Object object);
// The least of people's roles that may; ROLE_UNSPECIFIED if none of them may.
v1::Role LeastRoleFor(common::Action action, common::Object object);

// "operator". ROLE_UNSPECIFIED is "nobody".  plain-words: the name of a role
std::string_view RoleName(v1::Role role);
// ROLE_UNSPECIFIED for any other text.
v1::Role RoleOfName(std::string_view name);
// Whether the role is a person's: viewer, user, operator or admin.
bool IsPersonsRole(v1::Role role);

}  // namespace muster::coordinator
