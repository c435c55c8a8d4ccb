#include "client/session/settings.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string_view>

#include "client/command_line/arguments.h"
#include "client/command_line/command.h"
#include "client/command_line/errors.h"
#include "client/connection/addresses.h"
#include "client/job_file/yaml.h"
#include "client/terminal/listing.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr size_t kConfigBytesMax = 1 << 20;
constexpr std::string_view kDefaultNames[] = {"color", "output", "timeout"};

std::string SettingFromEnvironment(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

std::string XdgDirectory(const char* variable, std::string_view below_home) {
  const std::string directory = SettingFromEnvironment(variable);
  // The XDG specification says to ignore relative paths.
  if (!directory.empty() && directory[0] == '/') return directory;
  return StrCat(HomeDirectory(), "/", below_home);
}

// False, and a problem, if the node is neither a map of keys nor empty.
bool IsMap(const YamlNode& node, std::string_view what, std::vector<YamlProblem>* problems) {
  using Kind = YamlNode::Kind;
  if (node.kind == Kind::kMap || node.kind == Kind::kNull) return true;
  problems->push_back({node.line, node.column, StrCat(what, " is a map of keys")});
  return false;
}

std::vector<std::string> ReadEnvPass(const YamlNode& node, std::vector<YamlProblem>* problems) {
  std::vector<std::string> names;
  bool is_list = node.kind == YamlNode::Kind::kList;
  for (const YamlNode& item : node.items) {
    is_list = is_list && item.kind == YamlNode::Kind::kScalar && !item.text.empty();
    names.push_back(item.text);
  }
  if (!is_list) {
    problems->push_back(
        {node.line, node.column, "env_pass is a list of variables: [HTTPS_PROXY, \"WANDB_*\"]"});
  }
  return names;
}

void ReadContexts(const YamlNode& node, ConfigFile* config, std::vector<YamlProblem>* problems) {
  for (const YamlNode::Entry& context : node.entries) {
    const YamlNode* server = context.value.Find("server");
    const YamlNode* passed = context.value.Find("env_pass");
    const size_t known = passed == nullptr ? 1 : 2;
    if (server == nullptr || server->text.empty() || context.value.entries.size() != known) {
      problems->push_back({context.line, context.column,
                           "a context has server: HOST:PORT, and may have env_pass: [NAME, …]"});
      continue;
    }
    config->contexts[context.key] = server->text;
    if (passed != nullptr) config->env_pass[context.key] = ReadEnvPass(*passed, problems);
  }
}

void ReadConfig(const YamlNode& root, ConfigFile* config, std::vector<YamlProblem>* problems) {
  IsMap(root, "the configuration", problems);
  for (const YamlNode::Entry& entry : root.entries) {
    const YamlNode& value = entry.value;
    if (entry.key == "current") {
      if (!value.items.empty() || !value.entries.empty()) {
        problems->push_back({value.line, value.column, "current is the name of a context"});
      }
      config->current = value.text;
    } else if (entry.key == "contexts") {
      if (IsMap(value, "contexts", problems)) ReadContexts(value, config, problems);
    } else if (entry.key == "defaults") {
      if (!IsMap(value, "defaults", problems)) continue;
      for (const YamlNode::Entry& each : value.entries) {
        const std::string_view nearest = common::Nearest(each.key, kDefaultNames);
        if (nearest != each.key) {
          problems->push_back(
              {each.line, each.column,
               StrCat("unknown default \"", each.key, "\"", common::DidYouMean(nearest))});
        }
        config->defaults[each.key] = each.value.text;
      }
    } else {
      constexpr std::string_view kKeys[] = {"current", "contexts", "defaults"};
      problems->push_back({entry.line, entry.column,
                           StrCat("unknown key \"", entry.key, "\"",
                                  common::DidYouMean(common::Nearest(entry.key, kKeys)))});
    }
  }
}

bool HasOwnFlag(const Command& command, std::string_view name) {
  return std::any_of(command.flags.begin(), command.flags.end(),
                     [name](const Flag& flag) { return flag.name == name; });
}

}  // namespace

absl::Status CheckServerAddress(std::string_view what, std::string_view address) {
  if (address.starts_with("unix:/")) return absl::OkStatus();
  const size_t colon = address.rfind(':');
  const absl::StatusOr<int64_t> port = colon == std::string_view::npos
                                           ? absl::InvalidArgumentError("")
                                           : common::ParseInteger(address.substr(colon + 1));
  if (port.ok() && *port >= 1 && *port <= 65535 && colon > 0) return absl::OkStatus();
  const std::string shown = common::Printable(address);
  return Usage("JC1004", StrCat(what, "\"", shown, "\" is neither HOST:PORT nor unix:/PATH"),
               address.empty() || colon != std::string_view::npos
                   ? "give both, like head:7700"
                   : StrCat("add the port, like ", shown, ":7700",
                            what.empty() ? "" : "; for the name of a context, use --context"));
}

absl::Status CheckServerAddresses(std::string_view what, std::string_view addresses) {
  const std::vector<std::string> all = SplitAddresses(addresses);
  for (const std::string& each : all) {
    RETURN_IF_ERROR(CheckServerAddress(what, each));
    if (all.size() > 1 && each.starts_with("unix:")) {
      return Usage("JC1004",
                   StrCat(what, "\"", common::Printable(each),
                          "\" is a socket, and only HOST:PORT can be one of several"),
                   StrCat("give it alone, or as HOST:PORT like ", all.front()));
    }
  }
  return absl::OkStatus();
}

std::string HomeDirectory() {
  const std::string home = SettingFromEnvironment("HOME");
  if (!home.empty()) return home;
  const passwd* user = getpwuid(getuid());
  return user == nullptr ? "/tmp" : user->pw_dir;
}

std::string DefaultDataDir() { return XdgDirectory("XDG_DATA_HOME", ".local/share") + "/muster"; }

std::string DefaultRuntimeDir() {
  const std::string runtime = SettingFromEnvironment("XDG_RUNTIME_DIR");
  if (!runtime.empty() && runtime[0] == '/' && access(runtime.c_str(), W_OK) == 0)
    return runtime + "/muster";
  return StrCat("/tmp/muster-", getuid());
}

absl::StatusOr<ConfigFile> ConfigFile::Read() {
  ConfigFile config;
  config.path = SettingFromEnvironment("JOBCTL_CONFIG");
  if (config.path.empty())
    config.path = XdgDirectory("XDG_CONFIG_HOME", ".config") + "/muster/config.yaml";
  if (access(config.path.c_str(), F_OK) != 0) return config;
  const absl::StatusOr<std::string> content = common::ReadFileOrPipe(config.path, kConfigBytesMax);
  if (!content.ok()) {
    return Usage(
        "JC1006",
        StrCat("the configuration cannot be read: ", common::FromAbsl(content.status().message())),
        StrCat("check its permissions: ls -l ", config.path));
  }
  std::vector<YamlProblem> problems;
  const YamlNode root = ParseYaml(*content, &problems);
  ReadConfig(root, &config, &problems);
  if (!problems.empty()) {
    return Usage("JC1006",
                 StrCat("the configuration has errors\n", FormatProblems(config.path, problems)),
                 StrCat("correct ", config.path));
  }
  return config;
}

absl::Status ConfigFile::Write() const {
  std::string text;
  if (!current.empty()) common::StrAppend(&text, "current: ", YamlQuote(current), "\n");
  if (!contexts.empty()) text += "contexts:\n";
  for (const auto& [name, server] : contexts) {
    common::StrAppend(&text, "  ", YamlQuote(name), ":\n    server: ", YamlQuote(server), "\n");
    const auto passed = env_pass.find(name);
    if (passed == env_pass.end()) continue;
    text += "    env_pass: [";
    for (const std::string& each : passed->second)
      common::StrAppend(&text, text.ends_with('[') ? "" : ", ", YamlQuote(each));
    text += "]\n";
  }
  if (!defaults.empty()) text += "defaults:\n";
  for (const auto& [name, value] : defaults)
    common::StrAppend(&text, "  ", name, ": ", YamlQuote(value), "\n");
  // "config.yaml" lies in the working directory.
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const std::string directory = parent.empty() ? "." : parent.string();
  absl::Status written = common::MakeDirectories(directory);
  if (written.ok()) written = common::WriteFileDurably(path, text);
  if (written.ok()) return written;
  return common::MakeProblem(absl::StatusCode::kInternal,
                             {.code = "JC1006",
                              .what = "the configuration cannot be written",
                              .why = std::string(written.message()),
                              .fix = StrCat("ls -ld ", directory)});
}

namespace {

// Where a line and a column, both from 1, are in a text; npos: nowhere.
size_t OffsetOf(std::string_view text, int line, int column) {
  size_t at = 0;
  for (int i = 1; i < line; ++i) {
    at = text.find('\n', at);
    if (at == std::string_view::npos) return at;
    ++at;
  }
  return line < 1 || column < 1 ? std::string_view::npos : at + static_cast<size_t>(column) - 1;
}

}  // namespace

absl::Status ConfigFile::ChangeServer(const std::string& context, const std::string& from,
                                      const std::string& to) {
  ASSIGN_OR_RETURN(ConfigFile file, Read());
  const auto found = file.contexts.find(context);
  if (found == file.contexts.end() || found->second != from) return absl::OkStatus();
  found->second = to;
  ASSIGN_OR_RETURN(std::string content, common::ReadFile(file.path, kConfigBytesMax));
  std::vector<YamlProblem> problems;
  const YamlNode root = ParseYaml(content, &problems);
  const YamlNode& server = *root.Find("contexts")->Find(context)->Find("server");
  const size_t at = OffsetOf(content, server.line, server.column);
  for (const std::string& typed : {StrCat("\"", from, "\""), StrCat("'", from, "'"), from}) {
    if (at >= content.size() || content.compare(at, typed.size(), typed) != 0) continue;
    // Quoted: in braces, a comma would end it.
    content.replace(at, typed.size(), common::JsonQuote(to));
    return common::WriteFileDurably(file.path, content);
  }
  return file.Write();
}

absl::StatusOr<Settings> Settings::Resolve(const Arguments& arguments) {
  Settings settings;
  ASSIGN_OR_RETURN(settings.file_, ConfigFile::Read());
  RETURN_IF_ERROR(settings.AddServer(arguments));
  settings.Add(arguments, "output", "JOBCTL_OUTPUT", "table");
  settings.Add(arguments, "color", "JOBCTL_COLOR", "auto");
  // The command, like `wait`, may have its own flag of that name; the limit for answers is then the
  // default.
  if (HasOwnFlag(arguments.command(), "timeout")) {
    settings.all_.push_back({"timeout", "10s", "default"});
  } else {
    settings.Add(arguments, "timeout", "JOBCTL_TIMEOUT", "10s");
  }
  const auto directory = [&](const char* name, const char* variable, std::string otherwise) {
    const std::string value = SettingFromEnvironment(variable);
    settings.all_.push_back(value.empty() ? Setting{name, std::move(otherwise), "default"}
                                          : Setting{name, value, variable});
  };
  directory("data-dir", "JOBCTL_DATA_DIR", DefaultDataDir());
  directory("runtime-dir", "JOBCTL_RUNTIME_DIR", DefaultRuntimeDir());
  settings.all_.push_back(
      {"config", settings.file_.path,
       SettingFromEnvironment("JOBCTL_CONFIG").empty() ? "default" : "JOBCTL_CONFIG"});
  RETURN_IF_ERROR(settings.Check(arguments));
  return settings;
}

std::optional<Setting> Settings::FromFlagOrVariable(const Arguments& arguments,
                                                    std::string_view name, const char* variable) {
  if (arguments.Has(name)) {
    return Setting{std::string(name), arguments.Get(name), StrCat("flag --", name)};
  }
  if (const std::string value = SettingFromEnvironment(variable); !value.empty()) {
    return Setting{std::string(name), value, variable};
  }
  return std::nullopt;
}

absl::Status Settings::AddServer(const Arguments& arguments) {
  if (arguments.Has("server") && arguments.Has("context")) {
    return Usage("JC1004", "--server and --context both select a coordinator",
                 "give only one of them");
  }
  Setting context =
      FromFlagOrVariable(arguments, "context", "JOBCTL_CONTEXT")
          .value_or(file_.current.empty() ? Setting{"context", "private", "default"}
                                          : Setting{"context", file_.current, file_.path});
  std::optional<Setting> server;
  // A context given as a flag takes precedence over JOBCTL_SERVER.
  if (!arguments.Has("context")) server = FromFlagOrVariable(arguments, "server", "JOBCTL_SERVER");
  const auto found = file_.contexts.find(context.value);
  if (server.has_value()) {
    const std::string_view origin = server->origin;
    RETURN_IF_ERROR(CheckServerAddresses(
        StrCat(origin.starts_with("flag ") ? origin.substr(5) : origin, " "), server->value));
    context = {"context", "", "not used: the server is given"};
  } else if (context.value == "private") {
    server = Setting{"server", "", "context private"};
  } else if (found != file_.contexts.end()) {
    // `context add` and `config view` must work here, to fix it.
    if (arguments.command().name.find(' ') == std::string_view::npos) {
      RETURN_IF_ERROR(CheckServerAddresses(StrCat("the server of context ", context.value, ", "),
                                           found->second));
    }
    server = Setting{"server", found->second, StrCat("context ", context.value)};
  } else if (arguments.command().name.starts_with("context ")) {
    // `context use` must work here, to fix it.
    server = Setting{"server", "", StrCat("context ", context.value, ", which does not exist")};
  } else {
    std::vector<std::string_view> names = {"private"};
    for (const auto& [name, unused] : file_.contexts) names.push_back(name);
    return common::MakeProblem(
        absl::StatusCode::kNotFound,
        {.code = "JC1007",
         .what = StrCat("there is no context \"", context.value, "\" (from ", context.origin, ")",
                        common::DidYouMean(common::Nearest(context.value, names))),
         .fix = "jobctl context ls, jobctl context use private"});
  }
  all_ = {context, *server};
  return absl::OkStatus();
}

void Settings::Add(const Arguments& arguments, std::string_view name, const char* variable,
                   std::string otherwise) {
  std::optional<Setting> setting = FromFlagOrVariable(arguments, name, variable);
  const auto found = file_.defaults.find(std::string(name));
  if (!setting.has_value() && found != file_.defaults.end()) {
    setting = Setting{std::string(name), found->second, file_.path};
  }
  all_.push_back(setting.value_or(Setting{std::string(name), std::move(otherwise), "default"}));
}

// The parser checks flags; variables and the file are checked here.
absl::Status Settings::Check(const Arguments& arguments) {
  const auto check = [&](std::span<const Flag> flags, std::string_view name) -> absl::Status {
    const std::string value = Get(name);
    for (const Flag& flag : flags) {
      if (flag.name != name || arguments.Has(name)) continue;
      if (StrCat("|", flag.choices, "|").find(StrCat("|", value, "|")) != std::string::npos)
        continue;
      return Usage("JC1008",
                   StrCat(name, " must be one of ", flag.choices, ", not \"", value, "\""),
                   StrCat("jobctl config view --origin --", name, " ",
                          std::string(flag.choices.substr(0, flag.choices.find('|')))));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(check(ListingFlags(), "output"));
  RETURN_IF_ERROR(check(GlobalFlags(), "color"));
  const absl::StatusOr<int64_t> timeout = common::ParseDurationMs(Get("timeout"));
  if (!timeout.ok() || *timeout == 0) {
    return Usage("JC1004",
                 StrCat("timeout takes a duration like 10s, not \"", Get("timeout"), "\""),
                 "--timeout 10s");
  }
  timeout_ms_ = *timeout;
  return absl::OkStatus();
}

bool Settings::IsLocal() const { return server().empty() || server().starts_with("unix:"); }

std::vector<std::string> Settings::EnvPass() const {
  std::vector<std::string> names;
  for (const auto& [context, passed] : file_.env_pass) {
    const auto found = file_.contexts.find(context);
    if (found == file_.contexts.end() || !ShareAddress(found->second, server())) continue;
    names.insert(names.end(), passed.begin(), passed.end());
  }
  return names;
}

std::string Settings::Get(std::string_view name) const {
  for (const Setting& setting : all_) {
    if (setting.name == name) return setting.value;
  }
  return "";
}

}  // namespace muster::client
