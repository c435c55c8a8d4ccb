#include "worker/confinement/rank_token.h"

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/files/plain_files.h"
#include "common/hash/sha256.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace {

constexpr size_t kTokenBytes = 32;
constexpr mode_t kTokenPassable = 0711;
constexpr mode_t kReadOnly = 0400;

std::string NewToken() {
  std::array<char, kTokenBytes> bytes{};
  // getrandom(2) never returns less for up to 256 bytes, nor refuses them.
  CHECK(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size()));
}

absl::Status TokenError(const std::string& path) {
  return common::ErrnoStatus(common::StrCat("cannot write ", path));
}

}  // namespace

absl::Status IssueRankToken(const Paths& paths, const AttemptKey& key,
                            const common::LaunchAccount& account) {
  const std::string token = NewToken();
  const std::string path = paths.RankToken(key);
  RETURN_IF_ERROR(common::MakeDirectories(paths.CredentialDir(key)));
  if (account.is_other && chmod(paths.CredentialDir(key).c_str(), kTokenPassable) != 0)
    return TokenError(path);
  // Not synced, like launch.pb: no rank that needs it survives a power failure.
  if (!common::ReplaceFile(paths.RankTokenHash(key), common::Sha256Hex(token), /*durable=*/false))
    return TokenError(paths.RankTokenHash(key));
  if (!common::ReplaceFile(path, token, /*durable=*/false) || chmod(path.c_str(), kReadOnly) != 0 ||
      (account.is_other && lchown(path.c_str(), account.uid, account.gid) != 0)) {
    return TokenError(path);
  }
  return absl::OkStatus();
}

RankPass ReadRankPass(const Paths& paths, const AttemptKey& key,
                      const common::LaunchAccount& account) {
  RankPass pass{.uid = account.is_other ? account.uid : geteuid(),
                .token_sha256 = common::ReadFile(paths.RankTokenHash(key)).value_or("")};
  if (!common::IsSha256Hex(pass.token_sha256)) pass.token_sha256.clear();
  pass.needs_token = account.is_other && !pass.token_sha256.empty();
  return pass;
}

bool MayConnect(const RankPass& pass, uint32_t peer_uid) {
  return peer_uid == pass.uid || peer_uid == geteuid() || peer_uid == 0;
}

absl::Status CheckToken(const RankPass& pass, std::string_view token) {
  const bool is_right =
      token.empty() ? !pass.needs_token
                    : pass.token_sha256.empty() || common::Sha256Hex(token) == pass.token_sha256;
  if (is_right) return absl::OkStatus();
  return absl::PermissionDeniedError(
      token.empty() ? "the hello needs a \"token\": the content of the file that "
                      "MUSTER_RANK_TOKEN_FILE names"
                    : "the \"token\" is not this attempt's; fix: send the content of the file "
                      "that MUSTER_RANK_TOKEN_FILE names");
}

}  // namespace muster::worker
