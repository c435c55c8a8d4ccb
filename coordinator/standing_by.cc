#include "coordinator/standing_by.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/files/private_directory.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/base/data_lock.h"
#include "coordinator/base/machine_name.h"
#include "coordinator/base/work_pool.h"
#include "coordinator/config/open_stores.h"
#include "coordinator/etcd/client.h"
#include "coordinator/heads/head.h"
#include "coordinator/http/http_standby.h"
#include "coordinator/http/sign_in/shown_certificate.h"
#include "coordinator/http_secret.h"
#include "coordinator/identity/cluster.h"
#include "coordinator/net/listener.h"
#include "coordinator/services/standby_server.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

// A coordinator that stepped down a moment ago may still hold the data directory.
constexpr std::chrono::milliseconds kStandbyLockTimeout{5'000};
constexpr int kCannotBeginExit = 1;

// HOST:PORT by which others reach what listens on ADDR:PORT.
std::string Reachable(const std::string& listen) {
  const size_t colon = listen.rfind(':');
  const std::string host = listen.substr(0, colon);
  const bool is_any = host == "0.0.0.0" || host == "[::]" || host == "::" || host.empty();
  return is_any ? MachineName() + listen.substr(colon) : listen;
}

// The same sockets once more: they listen until both are closed.
absl::StatusOr<TcpPort> Duplicate(const TcpPort& port) {
  TcpPort copy{.endpoint = port.endpoint};
  for (const common::UniqueFd& each : port.fds) {
    copy.fds.emplace_back(fcntl(each.get(), F_DUPFD_CLOEXEC, 0));
    if (!copy.fds.back().valid()) return common::ErrnoStatus("cannot duplicate a socket");
  }
  return copy;
}

// `http`: what HTTP listens on; empty: no port.
v1::HeadRecord SelfOf(const Config& config, const std::string& listen, const std::string& http) {
  v1::HeadRecord self;
  self.set_name(config.head.name.empty() ? MachineName() : config.head.name);
  self.set_version(common::kVersion);
  self.set_endpoint(config.head.advertise.empty() ? Reachable(listen) : config.head.advertise);
  self.set_http(config.head.advertise_http.empty() && !http.empty() ? Reachable(http)
                                                                    : config.head.advertise_http);
  self.set_format(heads::kLogFormat);
  return self;
}

absl::StatusOr<std::string> FollowedSecret(const Config& config, const Cluster* cluster,
                                           Note note) {
  ASSIGN_OR_RETURN(const std::string text, ReadFollowedNote(config, note));
  return OpenHttpSecret(cluster, text);
}

absl::StatusOr<http::Sessions::Secrets> FollowedSecrets(const Config& config,
                                                        const Cluster* cluster) {
  http::Sessions::Secrets secrets;
  ASSIGN_OR_RETURN(secrets.token, FollowedSecret(config, cluster, Note::kHttpSecret));
  ASSIGN_OR_RETURN(secrets.metrics_token, FollowedSecret(config, cluster, Note::kMetricsSecret));
  return secrets;
}

}  // namespace

absl::Status UnusableState(const std::string& state, const absl::Status& why) {
  if (!common::CodeOf(why).empty()) return why;
  return common::MakeProblem(
      why.code(),
      {.code = "JC1631",
       .what = StrCat("the state at ", state, " cannot be used"),
       .why = std::string(why.message()),
       .fix = "check that etcd runs and can be reached from here: etcdctl endpoint status"});
}

etcd::Access AccessOf(const HeadFlags& flags) {
  // Checked with the flags.
  return {.address = *etcd::ParseAddress(flags.state),
          .authority_file = flags.etcd_authority,
          .certificate_file = flags.etcd_certificate,
          .key_file = flags.etcd_key,
          .user = flags.etcd_user,
          .password_file = flags.etcd_password_file};
}

struct StandingBy::Parts {
  absl::Status OpenHttp(const Config& config);
  absl::Status Serve(const Config& config, const v1::HeadRecord& self, TcpPort port);

  common::SystemClock clock;
  common::UniqueFd lock;
  std::shared_ptr<TcpPort> port;
  std::unique_ptr<Cluster> cluster;                     // null: there are no identities
  std::unique_ptr<http::ShownCertificate> certificate;  // null: likewise
  std::unique_ptr<heads::Head> head;
  std::unique_ptr<StandbyServer> server;
  std::unique_ptr<http::HttpStandby> front;  // null: no HTTP
  std::unique_ptr<WorkPool> pool;            // keeps the certificate; null: it leads
};

// Listens, but answers nothing yet.
absl::Status StandingBy::Parts::OpenHttp(const Config& config) {
  if (cluster != nullptr) {
    ASSIGN_OR_RETURN(certificate, http::ShownCertificate::Open(*cluster));
    pool = std::make_unique<WorkPool>(1);
    certificate->Keep(*pool, clock);
  }
  if (config.http.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      front,
      http::HttpStandby::Open(
          {.listen = config.http,
           .host_names = config.http_hosts,
           .data_dir = config.data_dir,
           .tls = certificate == nullptr ? nullptr : certificate->tls(),
           .authority_pem = cluster == nullptr ? "" : cluster->authority().certificate_pem()}));
  return absl::OkStatus();
}

absl::Status StandingBy::Parts::Serve(const Config& config, const v1::HeadRecord& self,
                                      TcpPort port) {
  const auto view = [head = head.get()] { return head->View(); };
  ASSIGN_OR_RETURN(server, StandbyServer::Start({.socket = config.socket,
                                                 .port = std::move(port),
                                                 .cluster = cluster.get(),
                                                 .name = self.name(),
                                                 .view = view}));
  if (front == nullptr) return absl::OkStatus();
  front->Serve(
      {.name = self.name(),
       .advertised = self.http(),
       .view = view,
       .secrets = [config, cluster = cluster.get()] { return FollowedSecrets(config, cluster); }});
  return absl::OkStatus();
}

StandingBy::StandingBy(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
StandingBy::~StandingBy() = default;

absl::StatusOr<std::unique_ptr<StandingBy>> StandingBy::Start(const Config& config,
                                                              Callbacks callbacks) {
  auto parts = std::make_unique<Parts>();
  RETURN_IF_ERROR(common::MakePrivateDirectory(config.data_dir));
  ASSIGN_OR_RETURN(parts->cluster, Cluster::Open(config.data_dir, config.keys_dir,
                                                 common::SystemClock().Read().wall_ms));
  ASSIGN_OR_RETURN(parts->lock,
                   LockDataDirectory(Paths(config.data_dir).Lock(), kStandbyLockTimeout));
  if (!config.socket.empty()) RETURN_IF_ERROR(PrepareSocket(config.socket, false));
  ASSIGN_OR_RETURN(TcpPort port, ListenOnPort(config.listen));
  ASSIGN_OR_RETURN(TcpPort shared, Duplicate(port));
  parts->port = std::make_shared<TcpPort>(std::move(port));
  RETURN_IF_ERROR(parts->OpenHttp(config));
  const v1::HeadRecord self =
      SelfOf(config, parts->port->endpoint, parts->front == nullptr ? "" : parts->front->Address());
  ASSIGN_OR_RETURN(std::unique_ptr<etcd::Client> client, etcd::Client::Make(AccessOf(config.head)));
  ASSIGN_OR_RETURN(
      parts->head,
      heads::Head::Open(
          std::move(client), ReplicaHomeOf(config),
          {.self = self,
           .lease_ms = config.head.lease_ms,
           .snapshot_bytes_least = config.head.snapshot_bytes,
           .data_dir = config.data_dir,
           .leads = std::move(callbacks.leads),
           .failed =
               [&config, failed = std::move(callbacks.failed)](const absl::Status& why) {
                 failed(UnusableState(config.head.state, why));
               },
           .lost = std::move(callbacks.step_down)}));
  RETURN_IF_ERROR(parts->Serve(config, self, std::move(shared)));
  common::LogInfo(StrCat("standing by head=", self.name(), " state=", config.head.state,
                         " tcp=", self.endpoint(), self.http().empty() ? "" : " http=", self.http(),
                         " data_dir=", config.data_dir));
  parts->head->Start();
  return std::unique_ptr<StandingBy>(new StandingBy(std::move(parts)));
}

Leading StandingBy::Lead() {
  parts_->pool.reset();
  parts_->front.reset();
  parts_->server.reset();
  parts_->lock.Reset();
  Leading leading = parts_->head->Lead();
  leading.port = parts_->port;
  return leading;
}

void StandingBy::Resign() { parts_->head->Resign(); }

void StartOver(char** argv, const absl::Status& why) {
  common::LogWarning(StrCat("stepping down: ", common::MessageOf(why)));
  std::vector<char*> words;
  for (char** word = argv; *word != nullptr; ++word) {
    // The process that read there knows how the first start ended.
    const std::string_view text(*word);
    if (text == "--report-fd" && word[1] != nullptr) {
      ++word;
    } else if (!text.starts_with("--report-fd=")) {
      words.push_back(*word);
    }
  }
  words.push_back(nullptr);
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  execv("/proc/self/exe", words.data());
  _exit(kCannotBeginExit);
}

}  // namespace muster::coordinator
