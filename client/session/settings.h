// Where jobctl's settings come from: flag > JOBCTL_* variable > context > config.yaml > default.
// Read once at startup.
//
// $XDG_CONFIG_HOME/muster/config.yaml (or ~/.config/muster, or JOBCTL_CONFIG):
//   current: lab
//   contexts: {lab: {server: "head:7700", env_pass: [HTTPS_PROXY, "WANDB_*"]}}
//   defaults: {output: wide, color: auto}
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::client {

class Arguments;

struct Setting {
  std::string name;
  std::string value;
  std::string
      origin;  // "flag --server", "JOBCTL_SERVER", "context lab", "/home/…/config.yaml", "default"
};

// config.yaml as it is in the file.
struct ConfigFile {
  std::string path;
  std::string current;  // empty: private
  // name -> HOST:PORT, or several separated by commas: coordinators that replace each other
  std::map<std::string, std::string> contexts;
  // name of a context -> more variables that jobs sent to it get: names, or NAME*
  std::map<std::string, std::vector<std::string>> env_pass;
  std::map<std::string, std::string> defaults;

  static absl::StatusOr<ConfigFile> Read();
  absl::Status Write() const;
  // Changes a context's server in the file as it is now, and nothing else of it: comments stay. Does
  // nothing if that is not `from` any more.
  static absl::Status ChangeServer(const std::string& context, const std::string& from,
                                   const std::string& to);
};

class Settings {
 public:
  static absl::StatusOr<Settings> Resolve(const Arguments& arguments);

  std::string Get(std::string_view name) const;
  const std::vector<Setting>& all() const { return all_; }
  // Empty: the private coordinator of this user.
  std::string server() const { return Get("server"); }
  // A private coordinator, or one that is reached by its socket. A port of this machine may be a tunnel to
  // another machine.
  bool IsLocal() const;
  // From the context that has this server, or another of its cluster.
  std::vector<std::string> EnvPass() const;
  int64_t timeout_ms() const { return timeout_ms_; }
  const ConfigFile& file() const { return file_; }

 private:
  static std::optional<Setting> FromFlagOrVariable(const Arguments& arguments,
                                                   std::string_view name, const char* variable);
  absl::Status AddServer(const Arguments& arguments);
  void Add(const Arguments& arguments, std::string_view name, const char* variable,
           std::string otherwise);
  absl::Status Check(const Arguments& arguments);

  ConfigFile file_;
  std::vector<Setting> all_;
  int64_t timeout_ms_ = 10'000;
};

// "HOST:PORT" or "unix:/PATH". Errors: JC1004, prefixed with `what` ("--server ").
absl::Status CheckServerAddress(std::string_view what, std::string_view address);
// The same, or several "HOST:PORT" separated by commas.
absl::Status CheckServerAddresses(std::string_view what, std::string_view addresses);

// The private coordinator's directories (see docs): JOBCTL_DATA_DIR and JOBCTL_RUNTIME_DIR take
// precedence over XDG's.
std::string DefaultDataDir();
std::string DefaultRuntimeDir();
std::string HomeDirectory();

}  // namespace muster::client
