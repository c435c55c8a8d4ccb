// The daemon's flags. CLI11 splits the words; we replace its error messages with our own.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "common/base/version.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "common/text/units.h"
#include "coordinator/care/commands.h"
#include "coordinator/config/config.h"
#include "coordinator/etcd/address.h"
#include "coordinator/http/admission/guard.h"
#include "coordinator/http/http_service.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr int64_t kDurationMaxMs = 7LL * 24 * 3'600'000;
// Limits of a certificate's lifetime: a shorter one would be renewed all the time, a longer one would outlive
// its purpose.
constexpr int64_t kLeastLifeMs = 2'000;
constexpr uint64_t kLeastSnapshotBytes = 64 << 10;
constexpr uint64_t kMostSnapshotBytes = 512 << 20;
constexpr uint64_t kLeastStateBytes = 1 << 20;
constexpr uint64_t kMostStateBytes = uint64_t{4} << 30;
constexpr int64_t kLeastLeaseMs = 2'000;
constexpr int64_t kMostLeaseMs = 60'000;
constexpr int64_t kMostLifeMs = 90LL * 24 * 3'600'000;

void AddLife(CLI::App& app, const std::string& flag, const std::string& whose, int64_t& lives_ms) {
  app.add_option_function<std::string>(
      flag,
      [flag, &lives_ms](const std::string& text) {
        const absl::StatusOr<int64_t> parsed = common::ParseDurationMs(text);
        if (!parsed.ok() || *parsed < kLeastLifeMs || *parsed > kMostLifeMs)
          throw CLI::ValidationError(flag, "must be a time from 2s to 90d, like 12h");
        lives_ms = *parsed;
      },
      StrCat("how long the certificate ", whose, " lives (default ",
             common::HumanDuration(lives_ms), ")"));
}

void AddDiskShare(CLI::App& app, const std::string& flag, const std::string& what,
                  DiskShare& share) {
  app.add_option_function<std::string>(
      flag,
      [flag, &share](const std::string& text) {
        const absl::StatusOr<DiskShare> parsed = ParseDiskShare(text);
        if (!parsed.ok()) throw CLI::ValidationError(flag, std::string(parsed.status().message()));
        share = *parsed;
      },
      StrCat(what, ": a size, or a share of its disk (default ", share.Text(), "; 0: no limit)"));
}

void AddOidc(CLI::App& app, oidc::Settings& oidc) {
  app.add_option("--oidc-issuer", oidc.issuer,
                 "people sign in at this OpenID Connect provider (jobctl login --oidc)");
  app.add_option("--oidc-client-id", oidc.client_id, "what the provider calls this cluster");
  app.add_option("--oidc-client-secret-file", oidc.secret_file,
                 "file of mode 0600 with the client's secret (default: a public client)");
  app.add_option("--oidc-scope", oidc.scope, "what is asked of the provider (default: openid)");
}

}  // namespace

void AddEtcdFlags(CLI::App& app, HeadFlags& head) {
  app.add_option("--etcd-ca", head.etcd_authority,
                 "PEM file of the authority of etcd's certificates (default: the system's)");
  app.add_option("--etcd-cert", head.etcd_certificate, "PEM file of our certificate for etcd");
  app.add_option("--etcd-key", head.etcd_key, "with --etcd-cert: its key");
  app.add_option("--etcd-user", head.etcd_user, "user of etcd's own authentication");
  app.add_option("--etcd-password-file", head.etcd_password_file,
                 "with --etcd-user: file whose first line is the password");
}

std::string WhatIsWrongWithEtcd(const HeadFlags& head) {
  if (const auto address = etcd::ParseAddress(head.state); !address.ok())
    return StrCat(head.state, ": ", common::FromAbsl(address.status().message()));
  if (head.etcd_certificate.empty() != head.etcd_key.empty())
    return "--etcd-cert and --etcd-key need each other";
  if (head.etcd_user.empty() != head.etcd_password_file.empty())
    return "--etcd-user and --etcd-password-file need each other";
  return "";
}

namespace {

struct SizeRange {
  uint64_t least = 0, most = 0;
  const char* range = "";
};

void AddSize(CLI::App& app, const std::string& flag, uint64_t& bytes, const SizeRange& range,
             const std::string& help) {
  app.add_option_function<std::string>(
      flag,
      [&bytes, flag, range](const std::string& text) {
        const absl::StatusOr<uint64_t> parsed = common::ParseByteSize(text);
        if (!parsed.ok() || *parsed < range.least || *parsed > range.most)
          throw CLI::ValidationError(flag, StrCat("must be a size from ", range.range));
        bytes = *parsed;
      },
      help);
}

}  // namespace

void AddArchiveFlag(CLI::App& app, HeadFlags& head) {
  AddSize(app, "--archive-above", head.state_bytes,
          {.least = kLeastStateBytes, .most = kMostStateBytes, .range = "1MiB to 4GiB"},
          "with a state in etcd: when it is larger than this, the records of finished jobs and "
          "old entries of the audit leave it for the coordinators' archives, the oldest first "
          "(default 256MiB; etcd must have room for four times as much)");
}

namespace {

void AddObjects(CLI::App& app, Config& config) {
  app.add_option(
      "--objects", config.objects,
      "where checkpoints, outputs and code are kept instead of the data directory, so "
      "that every coordinator reaches them: s3://BUCKET/PREFIX?endpoint=URL&region=NAME, "
      "or file:///DIRECTORY on a shared file system");
  app.add_flag("--objects-direct", config.objects_direct,
               "people's downloads of 1 MiB and more come from the store itself, by URLs that are "
               "good for 15 minutes");
}

void AddHead(CLI::App& app, HeadFlags& head) {
  app.add_option("--state", head.state,
                 "one of several coordinators that replace each other: keep the state in etcd, as "
                 "etcd://h1:2379,h2:2379,h3:2379/NAME (etcds:// for TLS)");
  app.add_option(
      "--head", head.name,
      "with --state: name of this coordinator among the others (default: the machine's)");
  app.add_option("--advertise", head.advertise,
                 "with --state: HOST:PORT by which workers and people reach this one (default: "
                 "--listen, with the machine's name for 0.0.0.0)");
  app.add_option("--advertise-http", head.advertise_http,
                 "with --state: HOST:PORT by which browsers reach this one (default: --http, with "
                 "the machine's name for 0.0.0.0)");
  app.add_option_function<std::string>(
      "--lease",
      [&head](const std::string& text) {
        const absl::StatusOr<int64_t> parsed = common::ParseDurationMs(text);
        if (!parsed.ok() || *parsed < kLeastLeaseMs || *parsed > kMostLeaseMs)
          throw CLI::ValidationError("--lease", "must be a time from 2s to 60s, like 5s");
        head.lease_ms = *parsed;
      },
      "with --state: another coordinator takes over when one was silent for this long: 2s to 60s, "
      "and at least 1.5 times etcd's election timeout (default 5s)");
  AddSize(app, "--snapshot-after", head.snapshot_bytes,
          {.least = kLeastSnapshotBytes, .most = kMostSnapshotBytes, .range = "64KiB to 512MiB"},
          "with --state: how much the log in etcd grows before a snapshot replaces it (default "
          "32MiB)");
  AddArchiveFlag(app, head);
  AddEtcdFlags(app, head);
}

void AddFlags(CLI::App& app, Config& config, std::vector<std::string>& networks, bool& version) {
  app.add_option("--data-dir", config.data_dir,
                 "directory of the journal, logs, metrics, checkpoints");
  app.add_option("--socket", config.socket,
                 "listen on this unix socket (default: DATA_DIR/coordinator.sock)");
  app.add_option("--listen", config.listen,
                 "listen on ADDR:PORT too: with TLS after init, otherwise only with "
                 "--insecure-plaintext");
  app.add_option("--http", config.http,
                 "serve HTTP on ADDR:PORT or unix:PATH; may be repeated; other addresses than "
                 "loopback need --insecure-plaintext");
  app.add_option("--http-host", config.http_hosts,
                 "HTTP may be addressed by this name too, as behind a proxy; may be repeated");
  app.add_option("--keys-dir", config.keys_dir,
                 "where the cluster's authority and keys are (default: where init put them)");
  app.add_flag("--insecure-plaintext", config.insecure_plaintext,
               "allow --listen, and --http beyond this machine, without encryption");
  app.add_flag("--private", config.is_private, "serve one user's jobctl, and exit when it does");
  app.add_option("--worker-state-dir", config.worker_state_dir,
                 "private: state directory of its worker");
  app.add_option("--log-file", config.log_file, "append the daemon's log here instead of stderr");
  app.add_option("--report-fd", config.report_fd,
                 "also write here why the start failed; closed if it succeeded");
  const auto duration = CLI::Range(int64_t{1}, kDurationMaxMs);
  app.add_option("--heartbeat-ms", config.settings.heartbeat_ms, "how often workers report")
      ->check(duration);
  app.add_option("--suspect-after-ms", config.settings.suspect_after_ms,
                 "silence that makes a node suspect")
      ->check(duration);
  app.add_option("--fence-margin-ms", config.settings.fence_margin_ms,
                 "added to stop_after and grace before a silent node is replaced")
      ->check(duration);
  app.add_option("--backoff-first-ms", config.settings.backoff_first_ms,
                 "first pause after a quick failure")
      ->check(duration);
  app.add_option("--start-timeout-ms", config.settings.start_timeout_ms,
                 "how long a worker may take to launch its ranks")
      ->check(duration);
  app.add_option(
         "--min-run-ms", config.settings.min_run_ms,
         "a job runs so long before it may be asked to give way to a project within its quota "
         "(default 1800000)")
      ->check(duration);
  app.add_option("--notice-ms", config.settings.notice_ms,
                 "how long a job that is asked to give way has to save (default 120000)")
      ->check(duration);
  app.add_option("--reclaim-after-ms", config.settings.reclaim_after_ms,
                 "how long a job waits before others are asked to give way to it (default 30000)")
      ->check(duration);
  app.add_option("--findings-floor-ms", config.findings_floor_ms,
                 "findings speak of no shorter pause or loss than this (default 60000)")
      ->check(duration);
  app.add_option("--retain-jobs", config.retention.jobs,
                 "finished jobs that are kept (default 10000)");
  app.add_option("--retain-days", config.retention.days,
                 "days that a finished job is kept (default 30)")
      ->check(CLI::Range(int64_t{0}, int64_t{36'500}));
  AddDiskShare(app, "--code-quota", "how much code of jobs each project may keep",
               config.code_quota);
  AddDiskShare(app, "--person-code-quota",
               "how much code of jobs one person may bring, in all projects", config.person_code);
  AddDiskShare(app, "--person-log-quota",
               "how much output a person's jobs may have kept; more, and none is submitted",
               config.person_logs);
  AddDiskShare(app, "--job-log-quota",
               "how much output of one job is kept, the newest; logs_keep in a job file lowers it",
               config.job_logs);
  AddDiskShare(app, "--job-metrics-quota", "how much of one job's metrics is kept, the first",
               config.job_metrics);
  AddDiskShare(app, "--job-outputs-quota",
               "how much of one job's outputs is kept, those of its newest attempts",
               config.job_outputs);
  app.add_option("--notify-allow", networks,
                 "jobs may notify webhooks in this network too, like 10.0.0.0/8; may be repeated");
  AddLife(app, "--worker-certificate", "of a worker", config.worker_certificate_ms);
  AddLife(app, "--person-certificate", "of a person", config.person_certificate_ms);
  AddOidc(app, config.oidc);
  AddHead(app, config.head);
  AddObjects(app, config);
  app.add_flag("--version", version, "print the version");
}

// Empty if HTTP may be served on all of these addresses.
std::string WhatIsWrongWithHttp(const Config& config) {
  if (config.http.empty() && !config.http_hosts.empty())
    return "--http-host needs --http ADDR:PORT or --http unix:PATH";
  for (const std::string& each : config.http) {
    if (each == "unix:") return "--http unix: has no path; write unix:PATH";
    if (each.rfind("unix:", 0) == 0) continue;
    if (each.rfind(':') == std::string::npos)
      return StrCat("--http ", each, " has no port; write ADDR:PORT, or unix:PATH");
    if (http::IsLocalOnly(each) || config.insecure_plaintext || config.is_secured) continue;
    return StrCat("--http ", each,
                  " would send sessions unencrypted to anyone who can listen in; use a loopback "
                  "address and a tunnel or a proxy, or, if the network is yours alone, add "
                  "--insecure-plaintext");
  }
  return "";
}

// Empty if people can sign in as asked.
std::string WhatIsWrongWithOidc(const Config& config) {
  if (const absl::Status wrong = oidc::CheckSettings(config.oidc); !wrong.ok())
    return std::string(common::FromAbsl(wrong.message()));
  if (config.oidc.issuer.empty()) return "";
  if (!config.is_secured) {
    return StrCat(
        "--oidc-issuer: ", config.data_dir,
        " is not of a cluster whose members are known; run muster-coordinator init first");
  }
  const bool has_port = std::any_of(config.http.begin(), config.http.end(),
                                    [](const auto& each) { return each.rfind("unix:", 0) != 0; });
  return has_port ? "" : "--oidc-issuer needs --http ADDR:PORT, where people sign in";
}

// Empty if it can be one of several.
std::string WhatIsWrongWithHead(const Config& config) {
  const HeadFlags& head = config.head;
  if (head.state.empty()) {
    return head.name.empty() && head.advertise.empty() && head.advertise_http.empty()
               ? ""
               : "--head, --advertise and --advertise-http need --state";
  }
  if (const std::string wrong = WhatIsWrongWithEtcd(head); !wrong.empty())
    return StrCat("--state ", wrong);
  if (config.is_private) return "--state is not for --private";
  if (config.listen.empty())
    return "--state needs --listen ADDR:PORT, where the other machines reach it";
  if (!head.advertise_http.empty() && config.http.empty())
    return "--advertise-http needs --http ADDR:PORT";
  if (!head.advertise_http.empty() && !http::ParseHostAndPort(head.advertise_http))
    return StrCat("--advertise-http ", head.advertise_http, " is not HOST:PORT");
  return "";
}

ParsedFlags Refuse(const std::string& text) {
  return {.stop = true,
          .exit_code = kUsageExit,
          .text = StrCat("muster-coordinator: ", text,
                         "\n  fix: muster-coordinator --help lists all flags and commands\n")};
}

}  // namespace

ParsedFlags ParseFlags(int argc, char** argv) {
  ParsedFlags parsed;
  Config& config = parsed.config;
  bool version = false;
  std::vector<std::string> networks;
  CLI::App app("muster-coordinator: keeps jobs, places them on nodes, collects what they write");
  AddFlags(app, config, networks, version);
  app.footer(CareCommandsHelp());
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return {.stop = true, .exit_code = 0, .text = app.help()};
  } catch (const CLI::ExtrasError&) {
    std::string extras;
    for (const std::string& extra : app.remaining()) extras += " " + extra;
    return Refuse(StrCat("unknown:", extras));
  } catch (const CLI::ParseError& error) {
    return Refuse(error.what());
  }
  if (version) {
    return {.stop = true,
            .text = StrCat("muster-coordinator ", common::kVersion, " (protocol ",
                           common::kProtocol, ")\n")};
  }
  for (const std::string& text : networks) {
    const absl::StatusOr<Network> network = ParseNetwork(text);
    if (!network.ok())
      return Refuse(StrCat("--notify-allow ", common::FromAbsl(network.status().message())));
    config.notify_allowed.push_back(*network);
  }
  if (config.data_dir.empty())
    return Refuse("--data-dir is missing: name the directory to keep data in");
  config.is_secured = common::Exists(config.data_dir + "/CLUSTER");
  if (config.is_secured && config.insecure_plaintext) {
    return Refuse(StrCat("--insecure-plaintext: ", config.data_dir,
                         " belongs to a cluster made by init, which serves only TLS"));
  }
  if (!config.listen.empty() && !config.insecure_plaintext && !config.is_secured) {
    return Refuse(StrCat("--listen ", config.listen,
                         " would serve without encryption to anyone who can reach it; run "
                         "muster-coordinator init first, or, if the network is yours alone, add "
                         "--insecure-plaintext"));
  }
  if (!config.listen.empty() && config.listen.rfind(':') == std::string::npos) {
    return Refuse(StrCat("--listen ", config.listen, " has no port; write ADDR:PORT"));
  }
  if (const std::string wrong = WhatIsWrongWithHttp(config); !wrong.empty()) return Refuse(wrong);
  if (const std::string wrong = WhatIsWrongWithOidc(config); !wrong.empty()) return Refuse(wrong);
  if (const std::string wrong = WhatIsWrongWithHead(config); !wrong.empty()) return Refuse(wrong);
  if (config.objects_direct && config.objects.rfind("s3://", 0) != 0)
    return Refuse("--objects-direct needs --objects s3://…, a store that takes signed URLs");
  if (config.is_private && (config.worker_state_dir.empty() || config.socket.empty())) {
    return Refuse("--private needs --socket and --worker-state-dir");
  }
  if (config.settings.suspect_after_ms < 2 * config.settings.heartbeat_ms) {
    return Refuse(StrCat("--suspect-after-ms ", config.settings.suspect_after_ms,
                         " must be at least twice --heartbeat-ms ", config.settings.heartbeat_ms));
  }
  if (config.socket.empty() && (config.listen.empty() || config.is_secured)) {
    config.socket = config.data_dir + "/coordinator.sock";
  }
  return parsed;
}

}  // namespace muster::coordinator
