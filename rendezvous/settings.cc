#include "rendezvous/settings.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/limits.h"
#include "common/hash/hex.h"
#include "common/text/strings.h"

namespace muster::rendezvous {
namespace {

bool Take(const std::vector<std::string>& words, Settings* settings) {
  const std::string& name = words[0];
  uint32_t number = 0;
  if (name == "secret") {
    const auto secret = common::FromHex(words[1]);
    if (!secret || secret->size() != common::kRendezvousSecretBytes) return false;
    settings->secret = *secret;
    return true;
  }
  if (name == "upstream") {
    if (words.size() != 3 || !absl::SimpleAtoi(words[2], &number) || number > UINT16_MAX)
      return false;
    settings->upstream = words[1];
    settings->port = static_cast<uint16_t>(number);
    return true;
  }
  if (!absl::SimpleAtoi(words[1], &number)) return false;
  const int fd = number <= INT32_MAX ? static_cast<int>(number) : -1;
  if (name == "nodes")
    settings->nodes = number;
  else if (name == "world")
    settings->world = number;
  else if (name == "listen")
    settings->listen = fd;
  else if (name == "account")
    settings->account = number;
  else if (name == "local")
    settings->locals.push_back(fd);
  else if (name == "status")
    settings->status = fd;
  else if (name == "exits")
    settings->exits = fd;
  else
    return false;
  return true;
}

}  // namespace

absl::StatusOr<Settings> ParseSettings(std::string_view text) {
  Settings settings;
  for (const absl::string_view line :
       absl::StrSplit(common::ToAbsl(text), '\n', absl::SkipEmpty())) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words.size() < 2 || !Take(words, &settings)) {
      return absl::InvalidArgumentError(
          common::StrCat("the line of '", words[0], "' is not right"));
    }
  }
  if (settings.locals.empty()) return absl::InvalidArgumentError("there is no rank here");
  if ((settings.listen >= 0 || !settings.upstream.empty()) && settings.secret.empty()) {
    return absl::InvalidArgumentError("there are several nodes, and no secret");
  }
  return settings;
}

}  // namespace muster::rendezvous
