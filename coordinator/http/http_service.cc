#include "coordinator/http/http_service.h"

#include <unistd.h>

#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/calls/daemon.h"
#include "coordinator/http/admission/guard.h"
#include "coordinator/http/admission/sessions.h"
#include "coordinator/http/admission/token_file.h"
#include "coordinator/http/pages/event_hub.h"
#include "coordinator/http/pages/page_files.h"
#include "coordinator/http/server/server.h"
#include "coordinator/http/server/target.h"
#include "coordinator/http/site.h"
#include "coordinator/net/listener.h"

namespace muster::coordinator::http {
namespace {

using common::StrCat;

constexpr std::string_view kUnix = "unix:";
constexpr std::string_view kAnyPort = ":0";
constexpr size_t kPortFileBytesMax = 16;

struct HttpListeners {
  std::vector<Listener> listeners;
  std::vector<std::string> sockets;  // to remove at the end
  std::string address;               // of the first TCP listener, "HOST:PORT"; empty: none
  std::string port;                  // its port
};

// The port of the last run, if it is free, so that open pages survive a restart.
absl::StatusOr<TcpPort> ListenOnAnyPort(const std::string& host, const std::string& memory) {
  const absl::StatusOr<std::string> text = common::ReadFile(memory, kPortFileBytesMax);
  uint32_t last = 0;
  if (text.ok() && absl::SimpleAtoi(*text, &last) && last > 0 && last <= UINT16_MAX) {
    absl::StatusOr<TcpPort> again = ListenOnPort(StrCat(host, ":", last), "--http");
    if (again.ok()) return again;
  }
  ASSIGN_OR_RETURN(TcpPort port, ListenOnPort(StrCat(host, kAnyPort), "--http"));
  const std::string number = port.endpoint.substr(port.endpoint.rfind(':') + 1);
  // Logged now: otherwise only the next start would notice.
  if (const absl::Status kept = common::WriteFileDurably(memory, number + "\n"); !kept.ok())
    common::LogWarning(std::string(kept.message()));
  return port;
}

absl::Status ListenOnTcp(const std::string& listen, const Paths& paths,
                         const std::shared_ptr<const ServerTls>& tls, HttpListeners& listeners) {
  const bool is_any = std::string_view(listen).ends_with(kAnyPort);
  const std::string host = listen.substr(0, listen.rfind(':'));
  ASSIGN_OR_RETURN(TcpPort port, is_any ? ListenOnAnyPort(host, paths.HttpPort())
                                        : ListenOnPort(listen, "--http"));
  if (listeners.address.empty()) {
    listeners.address = port.endpoint;
    listeners.port = port.endpoint.substr(port.endpoint.rfind(':') + 1);
  }
  for (common::UniqueFd& fd : port.fds) {
    listeners.listeners.push_back({.fd = std::move(fd), .tls = tls});
  }
  return absl::OkStatus();
}

absl::StatusOr<HttpListeners> OpenListeners(const Daemon& daemon,
                                            const HttpService::Options& options) {
  HttpListeners listeners;
  for (const std::string& each : options.listen) {
    if (!std::string_view(each).starts_with(kUnix)) {
      RETURN_IF_ERROR(ListenOnTcp(each, daemon.process.paths, options.tls, listeners));
      continue;
    }
    const std::string path = each.substr(kUnix.size());
    RETURN_IF_ERROR(PrepareSocket(path, daemon.instance.is_private));
    ASSIGN_OR_RETURN(common::UniqueFd fd, ListenOnSocket(path));
    listeners.listeners.push_back(
        {.fd = std::move(fd), .is_unix = true, .own_uid_only = daemon.instance.is_private});
    listeners.sockets.push_back(path);
  }
  return listeners;
}

// An address that a browser on this machine or another can use: not the wildcard.
std::string UrlOf(const std::string& address, bool is_encrypted) {
  const std::string_view scheme = is_encrypted ? "https://" : "http://";
  const std::string host = HostName(address);
  const std::string port = address.substr(address.rfind(':') + 1);
  if (host.empty() || host == "0.0.0.0" || host == "::") return StrCat(scheme, "127.0.0.1:", port);
  return StrCat(scheme, address);
}

}  // namespace

struct HttpService::Parts {
  Parts(Sessions::Secrets secrets, std::string cookie, bool is_encrypted)
      : sessions(std::move(secrets), std::move(cookie), is_encrypted) {}

  Sessions sessions;
  std::shared_ptr<EventHub> hub;
  std::unique_ptr<EnrollHandler> enroll;
  std::unique_ptr<Site> site;
  std::string address;
  std::string url;  // empty: no TCP
  std::vector<std::string> sockets;
  std::unique_ptr<Server> server;
};

bool IsLocalOnly(std::string_view listen) {
  if (listen.starts_with(kUnix)) return true;
  // The rule for what a Host field may name on loopback is the same.
  return IsOurHost(listen, {.principal = "", .local_address = ""}, {});
}

HttpService::HttpService(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

HttpService::~HttpService() { Stop(); }

absl::StatusOr<std::unique_ptr<HttpService>> HttpService::Open(Daemon& daemon, Options options) {
  Sessions::Secrets secrets;
  ASSIGN_OR_RETURN(secrets.token, LoadOrMakeToken(daemon.process.paths.HttpToken()));
  ASSIGN_OR_RETURN(secrets.metrics_token, LoadOrMakeToken(daemon.process.paths.HttpMetricsToken()));
  ASSIGN_OR_RETURN(HttpListeners listeners, OpenListeners(daemon, options));
  // Browsers send a cookie to every port of a host, so coordinators there need different ones.
  std::string cookie = listeners.port.empty() ? std::string("muster") : "muster_" + listeners.port;
  const bool is_encrypted = options.tls != nullptr;
  if (is_encrypted) {
    // No unencrypted server of this host can set one of that name.
    cookie.insert(0, "__Host-");
    for (std::string& name : options.tls->Names()) options.host_names.push_back(std::move(name));
  }
  auto parts = std::make_unique<Parts>(std::move(secrets), cookie, is_encrypted);
  parts->hub =
      std::make_shared<EventHub>(daemon, [all = parts.get()] { all->server->PullStreams(); });
  if (options.enrolment != nullptr) {
    parts->enroll =
        std::make_unique<EnrollHandler>(daemon, *options.enrolment, std::move(options.oidc));
  }
  parts->site = std::make_unique<Site>(
      daemon, parts->sessions,
      Site::Options{.host_names = std::move(options.host_names),
                    .counts = [all = parts.get()] { return all->server->Read(); },
                    .journal_pending_bytes = std::move(options.journal_pending_bytes),
                    .hub = parts->hub,
                    .enroll = parts->enroll.get()});
  if (!listeners.address.empty()) parts->url = UrlOf(listeners.address, is_encrypted);
  parts->sockets = std::move(listeners.sockets);
  parts->address = parts->url.empty() ? StrCat(kUnix, parts->sockets.front()) : parts->url;
  Site* const site = parts->site.get();
  parts->server = std::make_unique<Server>(
      Server::Options{.listeners = std::move(listeners.listeners),
                      .connections = options.connections,
                      .limits = {}},
      Handlers{.check = [site](const RequestHead& head) { return site->Check(head); },
               .handle =
                   [site](Request request, Respond respond) {
                     site->Handle(std::move(request), std::move(respond));
                   },
               .caller = [site](const RequestHead& head) { return site->ShareOf(head); }});
  return std::unique_ptr<HttpService>(new HttpService(std::move(parts)));
}

void HttpService::Serve() { parts_->server->Begin(); }

void HttpService::Stop() {
  if (parts_->server == nullptr) return;
  parts_->hub->End();
  parts_->server->Stop();
  parts_->site->Stop();
  if (parts_->enroll != nullptr) parts_->enroll->Stop();
  for (const std::string& path : parts_->sockets) unlink(path.c_str());
  parts_->sockets.clear();
}

const std::string& HttpService::Address() const { return parts_->address; }

absl::StatusOr<std::string> HttpService::SignInLink(const Caller& caller, std::string_view path) {
  if (parts_->url.empty()) {
    return common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1317",
         .what = "the coordinator serves HTTP on a socket only, which no browser can reach",
         .fix = "start it with --http 127.0.0.1:7701 too"});
  }
  const std::string ticket = parts_->sessions.MakeTicket({.principal = caller.principal,
                                                          .user_id = caller.user_id,
                                                          .serial = caller.serial,
                                                          .until_s = caller.until_ms / 1'000},
                                                         std::chrono::steady_clock::now());
  std::string link = StrCat(parts_->url, "/sign-in?ticket=", ticket);
  if (IsLocalPath(path) && path != "/") common::StrAppend(&link, "&next=", PercentEncode(path));
  return link;
}

}  // namespace muster::coordinator::http
