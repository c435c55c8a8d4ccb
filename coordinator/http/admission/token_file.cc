#include "coordinator/http/admission/token_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/escaping.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "common/problem.h"
#include "common/text/strings.h"

namespace muster::coordinator::http {
namespace {

using common::StrCat;

constexpr size_t kTokenFileBytesMax = 1'024;

absl::Status CheckTokenFile(const std::string& path, int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return common::ErrnoStatus(StrCat("cannot look at ", path));
  if (info.st_uid == geteuid() && (info.st_mode & 077) == 0) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kPermissionDenied,
      {.code = "JC1608",
       .what = StrCat("the token in ", path, " is not a secret: the file ",
                      info.st_uid == geteuid() ? "may be read by others"
                                               : StrCat("belongs to uid ", info.st_uid)),
       .fix = StrCat("delete it; the next start makes a new token: rm ", path)});
}

}  // namespace

std::string RandomHex256() {
  std::array<unsigned char, 32> bytes{};
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = getrandom(bytes.data() + have, bytes.size() - have, 0);
    if (got > 0) {
      have += static_cast<size_t>(got);
    } else if (got < 0 && errno != EINTR) {
      std::perror("muster-coordinator: getrandom");
      // Happens only on a kernel without getrandom; a guessable secret would be worse than no coordinator.
      std::abort();
    }
  }
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

absl::StatusOr<std::string> LoadOrMakeToken(const std::string& path) {
  const absl::StatusOr<common::UniqueFd> file = common::OpenRegular(path, O_RDONLY | O_CLOEXEC);
  if (absl::IsNotFound(file.status())) {
    const std::string token = RandomHex256();
    RETURN_IF_ERROR(common::WriteFileDurably(path, token + "\n", 0600));
    return token;
  }
  RETURN_IF_ERROR(file.status());
  RETURN_IF_ERROR(CheckTokenFile(path, file->get()));
  ASSIGN_OR_RETURN(std::string token, common::ReadAt(file->get(), 0, kTokenFileBytesMax, path));
  while (!token.empty() && (token.back() == '\n' || token.back() == ' ')) token.pop_back();
  if (common::IsSha256Hex(token)) return token;
  return common::MakeProblem(
      absl::StatusCode::kDataLoss,
      {.code = "JC1602",
       .what = StrCat(path, " does not hold a token of 64 hex digits"),
       .fix = StrCat("delete it; the next start makes a new token: rm ", path)});
}

}  // namespace muster::coordinator::http
