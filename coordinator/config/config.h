// The command line of muster-coordinator, parsed. Fixed when the daemon starts.
#pragma once

#include <string>
#include <vector>

#include "coordinator/base/disk_share.h"
#include "coordinator/base/retention.h"
#include "coordinator/config/head_flags.h"
#include "coordinator/core/state/state.h"
#include "coordinator/identity/enrolment.h"
#include "coordinator/notify/address.h"
#include "coordinator/oidc/client.h"

namespace CLI {
class App;
}

namespace muster::coordinator {

struct Config {
  std::string data_dir;
  HeadFlags head;
  std::string objects;  // s3://… or file:///…, where blobs are; empty: in the data directory
  bool objects_direct = false;          // people read files of 1 MiB and more from there
  std::string socket;                   // path of the unix socket; empty: none
  std::string listen;                   // ADDR:PORT; empty: no TCP
  std::vector<std::string> http;        // ADDR:PORT or unix:PATH; empty: no HTTP
  std::vector<std::string> http_hosts;  // names by which HTTP may be addressed, besides addresses
  bool insecure_plaintext = false;
  bool is_secured = false;  // the data directory belongs to a cluster made by init
  std::string keys_dir;     // of a cluster made by init; empty: where its file CLUSTER points
  // The lifetimes of the certificates that this coordinator issues.
  int64_t worker_certificate_ms = Enrolment::kWorkerLivesMs;
  int64_t person_certificate_ms = Enrolment::kUserLivesMs;
  oidc::Settings oidc;  // the provider where people can sign in without a token
  bool is_private = false;
  std::string worker_state_dir;         // private: state directory of its worker
  std::string log_file;                 // empty: stderr
  int report_fd = -1;                   // if the start fails, the reason is also written here
  std::vector<Network> notify_allowed;  // networks that webhooks may reach, besides public ones
  Settings settings;
  Retention retention;
  // How much code of jobs each project may keep; 0: no limit.
  DiskShare code_quota{.bytes = 100'000'000'000};
  // How much one person may keep, in all projects and for all jobs; 0: no limit.
  DiskShare person_code{.bytes = 50'000'000'000};
  DiskShare person_logs{.percent = 30};
  // How much one job may keep: the newest of its output, the first of its metrics.
  DiskShare job_logs{.percent = 10};
  DiskShare job_metrics{.percent = 2};
  DiskShare job_outputs{.percent = 10};  // the newest of its outputs
  // The shortest pause or loss that findings mention (docs/findings.md).
  int64_t findings_floor_ms = 60'000;
};

// The result of parsing a command line.
struct ParsedFlags {
  Config config;
  bool stop = false;  // help, version, or an error: print `text` and exit
  int exit_code = 0;
  std::string text;
};

ParsedFlags ParseFlags(int argc, char** argv);

// The flags that tell how etcd is reached, for the commands that do; empty: those are right, and so is `state`.
void AddEtcdFlags(CLI::App& app, HeadFlags& head);
// How large the state in etcd may be.
void AddArchiveFlag(CLI::App& app, HeadFlags& head);
std::string WhatIsWrongWithEtcd(const HeadFlags& head);

}  // namespace muster::coordinator
