// The rules for names and texts in the directory, their errors, and the record of a new user.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "muster/v1/identity.pb.h"

namespace muster::coordinator {

// A user: a name, or "uid:N" for a local account. INVALID_ARGUMENT (JC1321).
absl::Status CheckUserName(std::string_view name);
// "uid:1000".
bool IsLocalAccount(std::string_view name);
// A node, project or secret. `what`: "a project".
absl::Status CheckEntryName(std::string_view what, std::string_view name);
// A remark of at most 1 KiB. `what`: "the comment".
absl::Status CheckRemark(std::string_view what, std::string_view text);

// A new person, even if another had the name before: with a unique id. A local account is the machine's
// and has no id. `by`: the principal that asks.
v1::User NewUser(const std::string& name, v1::Role role, int64_t now_ms, const std::string& by);

// INVALID_ARGUMENT (JC1331).
absl::Status BadIdentity(std::string what, std::string fix);
// NOT_FOUND (JC1332).
absl::Status NoSuchEntry(std::string_view what, std::string_view name, std::string fix);
// RESOURCE_EXHAUSTED (JC1334).
absl::Status TooManyEntries(std::string_view what, uint64_t limit, std::string fix);

}  // namespace muster::coordinator
