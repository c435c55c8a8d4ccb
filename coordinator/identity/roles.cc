#include "coordinator/identity/roles.h"

#include <array>
#include <utility>

namespace muster::coordinator {
namespace {

using common::Action;
using common::Object;

constexpr std::array kNames = {std::pair{v1::ROLE_VIEWER, std::string_view("viewer")},
                               std::pair{v1::ROLE_USER, std::string_view("user")},
                               std::pair{v1::ROLE_OPERATOR, std::string_view("operator")},
                               std::pair{v1::ROLE_ADMIN, std::string_view("admin")},
                               std::pair{v1::ROLE_WORKER, std::string_view("worker")},
                               std::pair{v1::ROLE_RANK, std::string_view("rank")},
                               std::pair{v1::ROLE_COORDINATOR, std::string_view("coordinator")}};

// People's roles, from the least: each may do everything that the ones before it may.
constexpr std::array kPeople = {v1::ROLE_VIEWER, v1::ROLE_USER, v1::ROLE_OPERATOR, v1::ROLE_ADMIN};

// The least of people's roles that may do this action to this object.
v1::Role LeastFor(Action action, Object object) {
  switch (action) {
    case Action::kRead:
      return object == Object::kToken || object == Object::kCredential || object == Object::kAudit
                 ? v1::ROLE_OPERATOR
                 : v1::ROLE_VIEWER;
    case Action::kSubmit:
      return object == Object::kJob || object == Object::kCode ? v1::ROLE_USER
                                                               : v1::ROLE_UNSPECIFIED;
    case Action::kControl:
      // Their own: a person who may sign in may also sign out. Everyone's: an administrator.
      if (object == Object::kCredential) return v1::ROLE_VIEWER;
      if (object == Object::kProject) return v1::ROLE_OPERATOR;  // what it may have of the devices
      [[fallthrough]];
    case Action::kRemove:
      // Their own; everyone's: an operator.
      return object == Object::kJob || object == Object::kCheckpoint ? v1::ROLE_USER
                                                                     : v1::ROLE_UNSPECIFIED;
    case Action::kAdminister:
      return object == Object::kNode ? v1::ROLE_OPERATOR : v1::ROLE_ADMIN;
    case Action::kOwn:
      return v1::ROLE_USER;
    case Action::kServe:
      return v1::ROLE_UNSPECIFIED;
  }
  return v1::ROLE_UNSPECIFIED;
}

}  // namespace

v1::Role LeastRoleFor(Action action, Object object) { return LeastFor(action, object); }

bool MayCall(v1::Role role, Action action, Object object) {
  if (action == Action::kServe) return role == v1::ROLE_WORKER;
  const v1::Role least = LeastFor(action, object);
  return IsPersonsRole(role) && least != v1::ROLE_UNSPECIFIED && role >= least;
}

std::string_view RoleName(v1::Role role) {
  for (const auto& [each, name] : kNames) {
    if (each == role) return name;
  }
  return "nobody";  // plain-words: the name of a role, which tests and programs read
}

v1::Role RoleOfName(std::string_view name) {
  for (const auto& [role, each] : kNames) {
    if (each == name) return role;
  }
  return v1::ROLE_UNSPECIFIED;
}

bool IsPersonsRole(v1::Role role) {
  for (const v1::Role each : kPeople) {
    if (each == role) return true;
  }
  return false;
}

}  // namespace muster::coordinator
