#include "client/spec_environment.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>

#include "client/errors.h"
#include "client/session.h"
#include "common/strings.h"
#include "common/text.h"
#include "muster/v1/job.pb.h"

extern char** environ;

namespace muster::client {

using common::StrCat;

std::string Variable(std::string_view name) {
  const char* value = getenv(std::string(name).c_str());
  return value == nullptr ? "" : value;
}

// $PWD if it is this directory: it keeps the name that people know, symbolic links included.
std::string WorkingDirectory() {
  const std::string named = Variable("PWD");
  struct stat a {
  }, b{};
  if (!named.empty() && named[0] == '/' && stat(named.c_str(), &a) == 0 && stat(".", &b) == 0 &&
      a.st_dev == b.st_dev && a.st_ino == b.st_ino) {
    return named;
  }
  char path[PATH_MAX];
  return getcwd(path, sizeof(path)) == nullptr ? "" : path;
}

// The whole environment, or the few variables that programs need.
void AddEnvironment(bool clean, Session& session, v1::JobSpec* spec) {
  constexpr std::string_view kAlways[] = {"PATH",  "HOME", "USER", "LOGNAME",
                                          "SHELL", "LANG", "TZ",   "TMPDIR"};
  std::string skipped;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string_view::npos) continue;
    const std::string name(text.substr(0, equals));
    const std::string value(text.substr(equals + 1));
    if (clean && std::find(std::begin(kAlways), std::end(kAlways), name) == std::end(kAlways))
      continue;
    // Functions exported by bash have control characters in their values; they are still valid
    // UTF-8.
    std::string flat = value;
    std::replace_if(
        flat.begin(), flat.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
    if (!common::IsCleanUtf8(name) || !common::IsUtf8Text(flat)) {
      common::StrAppend(&skipped, skipped.empty() ? "" : ", ", common::Printable(name));
      continue;
    }
    spec->mutable_env()->insert({name, value});
  }
  if (!skipped.empty()) session.Note(StrCat("not sent because they are not UTF-8: ", skipped));
}

absl::Status AddVariables(const std::vector<std::string>& settings, v1::JobSpec* spec) {
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    const std::string name = setting.substr(0, equals);
    if (name.empty() || !common::IsCleanUtf8(name)) {
      return Usage("JC1004", StrCat("-e ", setting, " is not NAME=VALUE"), "-e NAME=VALUE");
    }
    // `-e NAME` alone takes the value from the current environment, like docker.
    (*spec->mutable_env())[name] =
        equals == std::string::npos ? Variable(name) : setting.substr(equals + 1);
  }
  return absl::OkStatus();
}

}  // namespace muster::client
