#include "coordinator/identity/directory_checks.h"

#include <algorithm>
#include <utility>

#include "common/hash/hex.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "identity/keys.h"
#include "identity/names.h"

namespace muster::coordinator {
namespace {

using common::MakeProblem;
using common::StrCat;

constexpr size_t kRemarkBytesMax = 1'024;
constexpr std::string_view kLocal = "uid:";
constexpr size_t kUidDigitsMax = 10;
constexpr size_t kIdBytes = 8;

}  // namespace

bool IsLocalAccount(std::string_view name) {
  if (!name.starts_with(kLocal)) return false;
  const std::string_view digits = name.substr(kLocal.size());
  return !digits.empty() && digits.size() <= kUidDigitsMax &&
         std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
}

absl::Status CheckUserName(std::string_view name) {
  return IsLocalAccount(name) ? absl::OkStatus() : identity::CheckName("a user", name);
}

absl::Status CheckEntryName(std::string_view what, std::string_view name) {
  return identity::CheckName(what, name);
}

absl::Status CheckRemark(std::string_view what, std::string_view text) {
  if (text.size() <= kRemarkBytesMax && common::IsCleanUtf8(text)) return absl::OkStatus();
  return BadIdentity(
      StrCat(what, " is too long or not clean text"),
      StrCat("give at most ", kRemarkBytesMax, " bytes of UTF-8 without control characters"));
}

v1::User NewUser(const std::string& name, v1::Role role, int64_t now_ms, const std::string& by) {
  v1::User user;
  user.set_name(name);
  user.set_role(role);
  user.set_created_ms(now_ms);
  user.set_created_by(by);
  if (!IsLocalAccount(name)) user.set_id(common::ToHex(identity::RandomBytes(kIdBytes)));
  return user;
}

absl::Status BadIdentity(std::string what, std::string fix) {
  return MakeProblem(absl::StatusCode::kInvalidArgument,
                     {.code = "JC1331", .what = std::move(what), .fix = std::move(fix)});
}

absl::Status NoSuchEntry(std::string_view what, std::string_view name, std::string fix) {
  return MakeProblem(
      absl::StatusCode::kNotFound,
      {.code = "JC1332",
       .what = StrCat("there is no ", what, " ", common::Printable(name.substr(0, 64))),
       .fix = std::move(fix)});
}

absl::Status TooManyEntries(std::string_view what, uint64_t limit, std::string fix) {
  return MakeProblem(
      absl::StatusCode::kResourceExhausted,
      {.code = "JC1334",
       .what = StrCat("there are ", limit, " ", what, " already, which is the limit"),
       .fix = std::move(fix)});
}

}  // namespace muster::coordinator
