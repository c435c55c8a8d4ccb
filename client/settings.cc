#include "client/settings.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "client/arguments.h"
#include "client/errors.h"
#include "client/listing.h"
#include "client/yaml.h"
#include "common/files.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/text.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr std::string_view kDefaultNames[] = {"color", "output", "timeout"};

std::string Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

std::string XdgDirectory(const char* variable, std::string_view below_home) {
  const std::string directory = Variable(variable);
  // The XDG specification says that relative paths are to be ignored.
  if (!directory.empty() && directory[0] == '/') return directory;
  return StrCat(HomeDirectory(), "/", below_home);
}

void ReadContexts(const YamlNode& node, ConfigFile* config, std::vector<YamlProblem>* problems) {
  for (const YamlNode::Entry& context : node.entries) {
    const YamlNode* server = context.value.Find("server");
    if (server == nullptr || server->text.empty() || context.value.entries.size() != 1) {
      problems->push_back({context.line, context.column, "a context has exactly one key: server: HOST:PORT"});
      continue;
    }
    config->contexts[context.key] = server->text;
  }
}

void ReadConfig(const YamlNode& root, ConfigFile* config, std::vector<YamlProblem>* problems) {
  for (const YamlNode::Entry& entry : root.entries) {
    if (entry.key == "current") {
      config->current = entry.value.text;
    } else if (entry.key == "contexts") {
      ReadContexts(entry.value, config, problems);
    } else if (entry.key == "defaults") {
      for (const YamlNode::Entry& each : entry.value.entries) {
        const std::string_view nearest = common::Nearest(each.key, kDefaultNames);
        if (nearest != each.key) {
          problems->push_back({each.line, each.column,
                               StrCat("unknown default \"", each.key, "\"", DidYouMean(nearest))});
        }
        config->defaults[each.key] = each.value.text;
      }
    } else {
      constexpr std::string_view kKeys[] = {"current", "contexts", "defaults"};
      problems->push_back({entry.line, entry.column,
                           StrCat("unknown key \"", entry.key, "\"", DidYouMean(common::Nearest(entry.key, kKeys)))});
    }
  }
}

}  // namespace

std::string HomeDirectory() {
  const std::string home = Variable("HOME");
  if (!home.empty()) return home;
  const passwd* user = getpwuid(getuid());
  return user == nullptr ? "/tmp" : user->pw_dir;
}

std::string DefaultDataDir() { return XdgDirectory("XDG_DATA_HOME", ".local/share") + "/muster"; }

std::string DefaultRuntimeDir() {
  const std::string runtime = Variable("XDG_RUNTIME_DIR");
  if (!runtime.empty() && runtime[0] == '/' && access(runtime.c_str(), W_OK) == 0) return runtime + "/muster";
  return StrCat("/tmp/muster-", getuid());
}

absl::StatusOr<ConfigFile> ConfigFile::Read() {
  ConfigFile config;
  config.path = Variable("JOBCTL_CONFIG");
  if (config.path.empty()) config.path = XdgDirectory("XDG_CONFIG_HOME", ".config") + "/muster/config.yaml";
  if (access(config.path.c_str(), F_OK) != 0) return config;
  const absl::StatusOr<std::string> content = common::ReadFile(config.path, 1 << 20);
  if (!content.ok()) {
    return Usage("JC1006", StrCat("the configuration cannot be read: ", common::FromAbsl(content.status().message())),
                 StrCat("check its permissions: ls -l ", config.path));
  }
  std::vector<YamlProblem> problems;
  const YamlNode root = ParseYaml(*content, &problems);
  ReadConfig(root, &config, &problems);
  if (!config.current.empty() && config.current != "private" && config.contexts.count(config.current) == 0) {
    problems.push_back({0, 0, StrCat("current names the context \"", config.current, "\", which is not configured")});
  }
  if (!problems.empty()) {
    return Usage("JC1006", StrCat("the configuration has errors\n", FormatProblems(config.path, problems)),
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
  }
  if (!defaults.empty()) text += "defaults:\n";
  for (const auto& [name, value] : defaults) common::StrAppend(&text, "  ", name, ": ", YamlQuote(value), "\n");
  const std::string directory = path.substr(0, path.rfind('/'));
  absl::Status written = common::MakeDirectories(directory);
  if (written.ok()) written = common::WriteFileDurably(path, text);
  if (written.ok()) return written;
  return Problem(absl::StatusCode::kInternal, "JC1006",
                 StrCat("the configuration cannot be written: ", common::FromAbsl(written.message())),
                 StrCat("ls -ld ", directory));
}

absl::StatusOr<Settings> Settings::Resolve(const Arguments& arguments) {
  Settings settings;
  ASSIGN_OR_RETURN(settings.file_, ConfigFile::Read());
  const ConfigFile& file = settings.file_;
  if (arguments.Has("server") && arguments.Has("context")) {
    return Usage("JC1004", "--server and --context both say where to go", "give one of them");
  }
  const auto from_flag_or_variable = [&](std::string_view name, const char* variable) -> std::optional<Setting> {
    if (!name.empty() && arguments.Has(name)) {
      return Setting{std::string(name), arguments.Get(name), StrCat("flag --", name)};
    }
    if (const std::string value = Variable(variable); !value.empty()) {
      return Setting{std::string(name), value, variable};
    }
    return std::nullopt;
  };

  Setting context = from_flag_or_variable("context", "JOBCTL_CONTEXT")
                        .value_or(file.current.empty() ? Setting{"context", "private", "default"}
                                                       : Setting{"context", file.current, file.path});
  std::optional<Setting> server;
  // A context given as a flag wins over JOBCTL_SERVER.
  if (!arguments.Has("context")) server = from_flag_or_variable("server", "JOBCTL_SERVER");
  if (server.has_value()) {
    context = {"context", "", "not used: the server is given"};
  } else if (context.value == "private") {
    server = Setting{"server", "", "context private"};
  } else if (const auto found = file.contexts.find(context.value); found != file.contexts.end()) {
    server = Setting{"server", found->second, StrCat("context ", context.value)};
  } else {
    std::vector<std::string_view> names = {"private"};
    for (const auto& [name, unused] : file.contexts) names.push_back(name);
    return Problem(absl::StatusCode::kNotFound, "JC1007",
                   StrCat("there is no context \"", context.value, "\"",
                          DidYouMean(common::Nearest(context.value, names))),
                   "jobctl context ls");
  }
  settings.all_ = {context, *server};
  const auto add = [&](std::string_view name, const char* variable, std::string otherwise) {
    std::optional<Setting> setting = from_flag_or_variable(name, variable);
    const auto found = file.defaults.find(std::string(name));
    if (!setting.has_value() && found != file.defaults.end()) {
      setting = Setting{std::string(name), found->second, file.path};
    }
    settings.all_.push_back(setting.value_or(Setting{std::string(name), std::move(otherwise), "default"}));
  };
  add("output", "JOBCTL_OUTPUT", "table");
  add("color", "JOBCTL_COLOR", "auto");
  // `wait --timeout` is that command's own; the answer's limit is then the default.
  if (arguments.command().name == "wait") {
    settings.all_.push_back({"timeout", "10s", "default"});
  } else {
    add("timeout", "JOBCTL_TIMEOUT", "10s");
  }
  const auto directory = [&](const char* name, const char* variable, std::string otherwise) {
    const std::string value = Variable(variable);
    settings.all_.push_back(value.empty() ? Setting{name, std::move(otherwise), "default"}
                                          : Setting{name, value, variable});
  };
  directory("data-dir", "JOBCTL_DATA_DIR", DefaultDataDir());
  directory("runtime-dir", "JOBCTL_RUNTIME_DIR", DefaultRuntimeDir());
  settings.all_.push_back({"config", file.path, Variable("JOBCTL_CONFIG").empty() ? "default" : "JOBCTL_CONFIG"});

  // Flags are checked by the parser; variables and the file are checked here.
  for (const Flag& flag : ListingFlags()) {
    const std::string output = settings.Get("output");
    if (flag.name == "output" && !arguments.Has("output") &&
        StrCat("|", flag.choices, "|").find(StrCat("|", output, "|")) == std::string::npos) {
      return Usage("JC1008", StrCat("the output format is ", flag.choices, ", not \"", output, "\""),
                   "jobctl config view --origin -o table");
    }
  }
  const absl::StatusOr<int64_t> timeout = ParseDurationMs(settings.Get("timeout"));
  if (!timeout.ok() || *timeout == 0) {
    return Usage("JC1004", StrCat("timeout takes a duration like 10s, not \"", settings.Get("timeout"), "\""),
                 "--timeout 10s");
  }
  settings.timeout_ms_ = *timeout;
  return settings;
}

std::string Settings::Get(std::string_view name) const {
  for (const Setting& setting : all_) {
    if (setting.name == name) return setting.value;
  }
  return "";
}

}  // namespace muster::client
