#include "client/terminal/hidden_input.h"

#include <unistd.h>

#include "client/command_line/errors.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/terminal_secret.h"
#include "common/text/strings.h"

namespace muster::client {

absl::StatusOr<std::string> ReadSecret(const SecretSource& source) {
  std::string secret;
  if (source.file.empty() && isatty(STDIN_FILENO) == 1) {
    if (!source.may_ask) {
      return Usage("JC1009", common::StrCat("there is no ", source.prompt, " to read"),
                   "pipe it in, or name its file");
    }
    ASSIGN_OR_RETURN(secret, common::AskHidden(source.prompt, source.bytes_max));
  } else {
    const bool is_input = source.file.empty() || source.file == "-";
    ASSIGN_OR_RETURN(
        secret, common::ReadFileOrPipe(is_input ? "/dev/stdin" : source.file, source.bytes_max));
  }
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  return secret;
}

}  // namespace muster::client
