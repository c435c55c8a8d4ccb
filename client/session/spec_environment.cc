#include "client/session/spec_environment.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <iterator>

#include "client/command_line/errors.h"
#include "client/session/session.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "muster/v1/job.pb.h"

extern char** environ;

namespace muster::client {

using common::StrAppend;
using common::StrCat;

std::string Variable(std::string_view name) {
  const char* value = getenv(std::string(name).c_str());
  return value == nullptr ? "" : value;
}

// $PWD if it names this directory: it keeps the path that the user knows, symbolic links included.
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

namespace {

constexpr std::string_view kLeast[] = {"PATH",  "HOME", "USER", "LOGNAME",
                                       "SHELL", "LANG", "TZ",   "TMPDIR"};
constexpr std::string_view kUsual[] = {
    "ASCEND_*", "CONDA_*", "CUDA_*",   "GLOO_*",         "HCCL_*",          "HF_HOME",
    "LC_*",     "MKL_*",   "MUSTER_*", "NCCL_*",         "LD_LIBRARY_PATH", "OMP_*",
    "PYTHON*",  "TERM",    "TORCH*",   "TRANSFORMERS_*", "VIRTUAL_ENV"};

// Matches by the name, or by "NAME*", which does not match names that look like secrets.
bool IsNamed(std::string_view name, std::string_view pattern) {
  if (!pattern.ends_with('*')) return name == pattern;
  return name.starts_with(pattern.substr(0, pattern.size() - 1)) && !common::LooksSecret(name);
}

template <typename List>
bool IsAmong(std::string_view name, const List& patterns) {
  return std::any_of(std::begin(patterns), std::end(patterns),
                     [&](std::string_view pattern) { return IsNamed(name, pattern); });
}

// Functions exported by bash have control characters in their values; they are still valid UTF-8.
bool CanBeSent(std::string_view name, std::string value) {
  std::replace_if(
      value.begin(), value.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  return common::IsCleanUtf8(name) && common::IsUtf8Text(value);
}

}  // namespace

EnvironmentSent UsualOf(const Session& session) {
  return session.settings().IsLocal() ? EnvironmentSent::kAll : EnvironmentSent::kUsual;
}

std::vector<std::string> AddEnvironment(EnvironmentSent sent, Session& session, v1::JobSpec* spec) {
  const std::vector<std::string> passed = session.settings().EnvPass();
  std::string skipped;
  std::vector<std::string> left_out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string_view::npos) continue;
    const std::string name(text.substr(0, equals));
    const bool is_usual =
        IsAmong(name, kLeast) ||
        (sent == EnvironmentSent::kUsual && (IsAmong(name, kUsual) || IsAmong(name, passed)));
    if (sent != EnvironmentSent::kAll && !is_usual) {
      if (sent == EnvironmentSent::kUsual) left_out.push_back(name);
      continue;
    }
    const std::string value(text.substr(equals + 1));
    if (!CanBeSent(name, value)) {
      StrAppend(&skipped, skipped.empty() ? "" : ", ", common::Printable(name));
      continue;
    }
    spec->mutable_env()->insert({name, value});
  }
  if (!skipped.empty()) session.Note(StrCat("not sent because they are not UTF-8: ", skipped));
  return left_out;
}

void NoteLeftOut(Session& session, const std::vector<std::string>& left_out,
                 const v1::JobSpec& spec) {
  constexpr size_t kShown = 5;
  std::vector<std::string> names;
  std::copy_if(left_out.begin(), left_out.end(), std::back_inserter(names),
               [&](const std::string& name) { return !spec.env().contains(name); });
  if (names.empty()) return;
  std::vector<std::string> secrets;
  std::copy_if(names.begin(), names.end(), std::back_inserter(secrets), common::LooksSecret);
  std::sort(secrets.begin(), secrets.end());
  std::string text = StrCat("note: of this shell ", common::Counted(names.size(), "variable"),
                            names.size() == 1 ? " was" : " were", " not sent");
  for (size_t i = 0; i < std::min(secrets.size(), kShown); ++i)
    StrAppend(&text, i == 0 ? ", among them " : ", ", common::Printable(secrets[i]));
  if (secrets.size() > kShown) StrAppend(&text, " and ", secrets.size() - kShown, " more");
  if (!secrets.empty())
    text += secrets.size() == 1 ? ", which looks like a secret" : ", which look like secrets";
  session.Note(StrCat(text, "; -e NAME sends one, --env-from shell all"));
}

absl::Status AddVariables(const std::vector<std::string>& settings, v1::JobSpec* spec) {
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    const std::string name = setting.substr(0, equals);
    if (name.empty() || !common::IsCleanUtf8(name) || name.find(' ') != std::string::npos) {
      return Usage("JC1004", StrCat("-e ", common::Printable(setting), " is not NAME=VALUE"),
                   "-e NAME=VALUE");
    }
    // `-e NAME` alone takes the value from the current environment, like docker.
    if (equals == std::string::npos && getenv(name.c_str()) == nullptr) {
      return Usage("JC1004", StrCat("-e ", name, ": the variable is not set here"),
                   StrCat("export it, or give its value: -e ", name, "=VALUE"));
    }
    (*spec->mutable_env())[name] =
        equals == std::string::npos ? Variable(name) : setting.substr(equals + 1);
  }
  return absl::OkStatus();
}

}  // namespace muster::client
