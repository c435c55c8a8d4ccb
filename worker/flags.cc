// CLI11 splits the words; we replace its error messages with our own.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/base/version.h"
#include "common/device_kinds.h"
#include "common/text/strings.h"
#include "common/text/units.h"
#include "worker/config.h"

namespace muster::worker {
namespace {

using common::StrCat;

constexpr int kUsageExit = 2;

void AddFlags(CLI::App& app, Config& config, std::string& ports, std::string& cache,
              bool& version) {
  app.add_option("--coordinator", config.coordinator,
                 "unix:/path or HOST:PORT; several, separated by commas, of coordinators that "
                 "replace each other (default: what was joined)");
  app.add_option("--name", config.name, "this node's name (default: the host name)");
  app.add_option("--devices", config.devices,
                 StrCat(common::DeviceKindNames(" or "),
                        ", each alone or with :N, comma separated (default: all)"));
  app.add_option("--device-root", config.device_root,
                 "where NPUs' /dev and /etc/hccn.conf are, if not at / (a mounted host, a test)");
  app.add_option("--state-dir", config.state_dir, "directory for what must survive a restart");
  app.add_option("--runtime-dir", config.runtime_dir, "short directory for sockets");
  app.add_option("--advertise", config.advertise, "address at which other nodes reach this one");
  app.add_option("--port-range", ports, "ports LO-HI for MASTER_PORT")->capture_default_str();
  app.add_option("--cache-size", cache,
                 "space for what jobs bring along and what their setups make, like 50GB or 20GiB; "
                 "the least recently used goes first")
      ->capture_default_str();
  app.add_option("--log-file", config.log_file, "log here instead of stderr");
  app.add_option("--run-as", config.run_as_flag,
                 "whose account ranks get: owner (the job's), worker (this one's), or an account "
                 "for all jobs (docs/security.md)");
  app.add_flag("--allow-root", config.allows_root, "with --run-as: ranks may be uid 0");
  app.add_option("--sandbox", config.sandbox_flag,
                 "none or on (default: on if ranks have another account than this worker)")
      ->check(CLI::IsMember({"none", "on"}));
  app.add_flag("--private", config.is_private, "serve one user only: cpu slots are not counted");
  app.add_flag("--version", version, "print the version");
}

ParsedFlags Refuse(std::string_view text) {
  return {
      .stop = true,
      .exit_code = kUsageExit,
      .text = StrCat("muster-worker: ", text, "\n  fix: muster-worker --help lists all flags\n")};
}

// The flags before "--".
void ParseOwnInitFlags(int argc, char** argv, ParsedInit* parsed) {
  InitOptions& options = parsed->options;
  const auto refuse = [parsed](std::string_view text) {
    parsed->stop = true;
    parsed->exit_code = kUsageExit;
    parsed->text = StrCat("muster-worker init: ", text, "\n  fix: muster-worker init --help\n");
  };
  std::string stop_within = "8s";
  CLI::App app(
      "the first process of a container: starts the worker, restarts it when it dies while its "
      "ranks continue, reaps orphans, forwards signals; what follows -- are the worker's flags",
      "muster-worker init");
  app.add_option("--stop-within", stop_within,
                 "after SIGTERM the worker is killed if it takes longer; less than what the "
                 "container's engine waits")
      ->capture_default_str();
  app.add_option("--join", options.join,
                 "join the cluster whose HTTPS is at this HOST:PORT first, or at one of several "
                 "separated by commas, if the state directory has no credentials; tried until it "
                 "succeeds");
  app.add_option("--token-file", options.token_file, "with --join: a file with the token");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    parsed->stop = true;
    parsed->text = app.help();
    return;
  } catch (const CLI::ExtrasError&) {
    return refuse("the worker's flags follow --: muster-worker init -- --state-dir DIR");
  } catch (const CLI::ParseError& error) {
    return refuse(error.what());
  }
  const absl::StatusOr<int64_t> within_ms = common::ParseDurationMs(stop_within);
  if (!within_ms.ok())
    return refuse(StrCat("--stop-within ", stop_within, ": ", within_ms.status().message()));
  options.stop_within_ms = *within_ms;
  if (options.join.empty() != options.token_file.empty()) {
    refuse("--join and --token-file belong together");
  }
}

}  // namespace

ParsedFlags ParseFlags(int argc, char** argv) {
  ParsedFlags parsed;
  Config& config = parsed.config;
  std::string ports = "20000-28999", cache = "50GB";
  bool version = false;
  CLI::App app(
      "muster-worker: runs the ranks of this node and streams back their output. `muster-worker "
      "join` makes this machine a member of a cluster; `muster-worker init` is the first process "
      "of a container");
  AddFlags(app, config, ports, cache, version);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return {.stop = true, .text = app.help()};
  } catch (const CLI::ExtrasError&) {
    std::string extras;
    for (const std::string& extra : app.remaining()) extras += " " + extra;
    return Refuse(StrCat("unknown:", extras));
  } catch (const CLI::ParseError& error) {
    return Refuse(error.what());
  }
  if (version) return {.stop = true, .text = StrCat(common::kVersion, "\n")};
  if (config.state_dir.empty()) {
    return Refuse("--state-dir is missing: name the directory for what must survive a restart");
  }
  const absl::StatusOr<PortRange> range = ParsePortRange(ports);
  if (!range.ok()) {
    return {.stop = true,
            .exit_code = kUsageExit,
            .text = StrCat("muster-worker: ", range.status().message(), "\n")};
  }
  config.ports = *range;
  const absl::StatusOr<uint64_t> cache_bytes = common::ParseByteSize(cache);
  if (!cache_bytes.ok()) {
    return Refuse(StrCat("--cache-size ", cache, ": ", cache_bytes.status().message()));
  }
  config.code_cache_bytes = *cache_bytes;
  return parsed;
}

ParsedJoin ParseJoinFlags(int argc, char** argv) {
  ParsedJoin parsed;
  JoinOptions& options = parsed.options;
  CLI::App app("makes this machine a node of a cluster", "muster-worker join");
  app.add_option("address", options.address,
                 "HOST:PORT of the coordinator's HTTPS; several, separated by commas, of "
                 "coordinators that replace each other")
      ->required();
  app.add_option("--token", options.token,
                 "the token of `jobctl token create worker`; others on this machine can read it "
                 "while this runs: without it, it is asked for, or read from a pipe");
  app.add_option("--token-file", options.token_file, "a file with the token; -: standard input");
  app.add_option("--name", options.name, "this node's name (default: the host name)");
  app.add_option("--state-dir", options.state_dir, "directory for what must survive a restart")
      ->capture_default_str();
  CLI::Option* again = app.add_flag("--again", options.again, "replace existing credentials");
  app.add_flag("--if-needed", options.if_needed, "do nothing if credentials exist")
      ->excludes(again);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return {.stop = true, .text = app.help()};
  } catch (const CLI::ParseError& error) {
    return {.stop = true,
            .exit_code = kUsageExit,
            .text = StrCat("muster-worker join: ", error.what(),
                           "\n  fix: muster-worker join --help\n")};
  }
  return parsed;
}

ParsedInit ParseInitFlags(int argc, char** argv) {
  char** const end = argv + argc;
  char** const dashes =
      std::find_if(argv, end, [](const char* word) { return std::string_view(word) == "--"; });
  ParsedInit parsed;
  ParseOwnInitFlags(static_cast<int>(dashes - argv), argv, &parsed);
  if (parsed.stop) return parsed;
  InitOptions& options = parsed.options;
  if (dashes != end) options.worker.assign(dashes + 1, end);
  std::string name = "muster-worker";
  std::vector<char*> line = {name.data()};
  for (std::string& word : options.worker) line.push_back(word.data());
  ParsedFlags worker = ParseFlags(static_cast<int>(line.size()), line.data());
  parsed.stop = worker.stop;
  parsed.exit_code = worker.exit_code;
  parsed.text = std::move(worker.text);
  options.config = std::move(worker.config);
  return parsed;
}

}  // namespace muster::worker
