// Every role × every call: printed as a table, and checked against what each role is for.
#include "coordinator/identity/roles.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <set>
#include <string>

namespace muster::coordinator {
namespace {

using common::Action;
using common::Call;
using common::Calls;
using common::Object;

const std::map<std::string, v1::Role> kRoles = {
    {"1 none", v1::ROLE_UNSPECIFIED}, {"2 viewer", v1::ROLE_VIEWER},
    {"3 user", v1::ROLE_USER},        {"4 operator", v1::ROLE_OPERATOR},
    {"5 admin", v1::ROLE_ADMIN},      {"6 worker", v1::ROLE_WORKER},
    {"7 rank", v1::ROLE_RANK},        {"8 coordinator", v1::ROLE_COORDINATOR}};

TEST(RolesTest, EveryRoleAndEveryCall) {
  std::printf("%-30s", "call");
  for (const auto& [name, role] : kRoles) std::printf(" %-11s", name.substr(2).c_str());
  std::printf("\n");
  for (const Call& call : Calls()) {
    std::printf("%-30s", std::string(call.name).c_str());
    std::set<v1::Role> allowed;
    for (const auto& [name, role] : kRoles) {
      if (MayCall(role, call.action, call.object)) allowed.insert(role);
      std::printf(" %-11s", MayCall(role, call.action, call.object) ? "yes" : "-");
    }
    std::printf("\n");
    const std::set<v1::Role> admins = {v1::ROLE_ADMIN};
    const std::set<v1::Role> operators = {v1::ROLE_OPERATOR, v1::ROLE_ADMIN};
    const std::set<v1::Role> users = {v1::ROLE_USER, v1::ROLE_OPERATOR, v1::ROLE_ADMIN};
    const std::set<v1::Role> all = {v1::ROLE_VIEWER, v1::ROLE_USER, v1::ROLE_OPERATOR,
                                    v1::ROLE_ADMIN};
    const bool is_delicate = call.object == Object::kToken || call.object == Object::kCredential ||
                             call.object == Object::kAudit;
    std::set<v1::Role> expected;
    switch (call.action) {
      case Action::kRead:
        expected = is_delicate ? operators : all;
        break;
      case Action::kControl:
        // Their own certificates; a job's owner is checked likewise.
        expected = call.object == Object::kCredential ? all
                   : call.object == Object::kProject  ? operators
                                                      : users;
        break;
      case Action::kSubmit:
      case Action::kRemove:
      case Action::kOwn:
        expected = users;
        break;
      case Action::kAdminister:
        expected = call.object == Object::kNode ? operators : admins;
        break;
      case Action::kServe:
        expected = {v1::ROLE_WORKER};
        break;
    }
    EXPECT_EQ(allowed, expected) << call.name;
    if (call.service != "ExecService") {
      EXPECT_EQ(call.service == "WorkerService", call.action == Action::kServe) << call.name;
    }
  }
}

TEST(RolesTest, WhatNoRowAllowsIsRefused) {
  for (const auto& [name, role] : kRoles) {
    EXPECT_FALSE(MayCall(role, Action::kSubmit, Object::kNode)) << name;
    EXPECT_FALSE(MayCall(role, Action::kRemove, Object::kAudit)) << name;
    EXPECT_FALSE(MayCall(role, static_cast<Action>(99), Object::kJob)) << name;
  }
  EXPECT_EQ(LeastRoleFor(Action::kServe, Object::kNode), v1::ROLE_UNSPECIFIED);
}

TEST(RolesTest, NamesAreReadBack) {
  for (const v1::Role role : {v1::ROLE_VIEWER, v1::ROLE_USER, v1::ROLE_OPERATOR, v1::ROLE_ADMIN,
                              v1::ROLE_WORKER, v1::ROLE_RANK, v1::ROLE_COORDINATOR}) {
    EXPECT_EQ(RoleOfName(RoleName(role)), role);
  }
  EXPECT_EQ(RoleName(v1::ROLE_UNSPECIFIED), "nobody");
  EXPECT_EQ(RoleOfName("nobody"), v1::ROLE_UNSPECIFIED);
  EXPECT_EQ(RoleOfName("root"), v1::ROLE_UNSPECIFIED);
}

}  // namespace
}  // namespace muster::coordinator
