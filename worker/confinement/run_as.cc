#include "worker/confinement/run_as.h"

#include <charconv>

#include "absl/status/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::worker {
namespace {

constexpr std::string_view kOwnerWord = "owner";
constexpr std::string_view kWorkerWord = "worker";
constexpr std::string_view kUserPrefix = "user:";
constexpr std::string_view kUidPrefix = "uid:";

// (uid_t)-1 means "no change" to the kernel.
std::optional<uint32_t> ParseUid(std::string_view text) {
  uint32_t uid = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, uid);
  if (parsed.ec != std::errc() || parsed.ptr != end || uid == UINT32_MAX) return std::nullopt;
  return uid;
}

AccountName NumberOrName(std::string_view text) { return {ParseUid(text), std::string(text)}; }

}  // namespace

RunAs DefaultRunAs(bool is_root, bool is_secured) {
  return {is_root && is_secured ? RunAs::Kind::kOwner : RunAs::Kind::kWorker, "", false};
}

RunAs ParseRunAs(std::string_view text) {
  if (text == kOwnerWord) return {RunAs::Kind::kOwner, "", false};
  if (text == kWorkerWord) return {RunAs::Kind::kWorker, "", false};
  return {RunAs::Kind::kFixed, std::string(text), false};
}

std::string RunAsText(const RunAs& run_as) {
  switch (run_as.kind) {
    case RunAs::Kind::kWorker:
      return std::string(kWorkerWord);
    case RunAs::Kind::kOwner:
      return std::string(kOwnerWord);
    case RunAs::Kind::kFixed:
      break;
  }
  return run_as.account;
}

std::string AccountName::Text() const {
  return uid ? common::StrCat("uid ", *uid) : common::StrCat("'", common::Printable(name), "'");
}

absl::StatusOr<AccountName> NameAccount(const RunAs& run_as, std::string_view owner,
                                        std::string_view account) {
  if (run_as.kind == RunAs::Kind::kFixed) return NumberOrName(run_as.account);
  if (!account.empty()) return NumberOrName(account);
  // A person may be called "0": that is a name, not a number.
  if (owner.starts_with(kUserPrefix) && owner.size() > kUserPrefix.size()) {
    return AccountName{std::nullopt, std::string(owner.substr(kUserPrefix.size()))};
  }
  if (owner.starts_with(kUidPrefix)) {
    if (const auto uid = ParseUid(owner.substr(kUidPrefix.size()))) {
      return AccountName{uid, std::string(owner.substr(kUidPrefix.size()))};
    }
  }
  return absl::InvalidArgumentError(common::StrCat("the job's owner ", common::Printable(owner),
                                                   " is not a person with an account"));
}

}  // namespace muster::worker
