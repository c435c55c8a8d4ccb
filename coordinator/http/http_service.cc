#include "coordinator/http/http_service.h"

#include <unistd.h>

#include <chrono>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/percent.h"
#include "common/text/strings.h"
#include "coordinator/calls/daemon.h"
#include "coordinator/http/admission/guard.h"
#include "coordinator/http/admission/sessions.h"
#include "coordinator/http/admission/token_file.h"
#include "coordinator/http/http_listeners.h"
#include "coordinator/http/pages/event_hub.h"
#include "coordinator/http/pages/page_files.h"
#include "coordinator/http/server/server.h"
#include "coordinator/http/server/target.h"
#include "coordinator/http/site.h"

namespace muster::coordinator::http {
namespace {

using common::StrCat;

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
  if (listen.starts_with(kUnixListener)) return true;
  // The rule for what a Host field may name on loopback is the same.
  return IsOurHost(listen, {.principal = "", .local_address = ""}, {});
}

HttpService::HttpService(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

HttpService::~HttpService() { Stop(); }

absl::StatusOr<std::unique_ptr<HttpService>> HttpService::Open(Daemon& daemon, Options options) {
  Sessions::Secrets secrets;
  ASSIGN_OR_RETURN(secrets.token, LoadOrMakeToken(daemon.process.paths.HttpToken()));
  ASSIGN_OR_RETURN(secrets.metrics_token, LoadOrMakeToken(daemon.process.paths.HttpMetricsToken()));
  ASSIGN_OR_RETURN(HttpListeners listeners, OpenListeners(options.listen, daemon.process.paths,
                                                          options.tls, daemon.instance.is_private));
  // Browsers send a cookie to every port of a host, so coordinators there need different ones.
  std::string cookie = listeners.port.empty() ? std::string("muster") : "muster_" + listeners.port;
  const bool is_encrypted = options.tls != nullptr;
  if (is_encrypted) {
    // No unencrypted server of this host can set one of that name.
    cookie.insert(0, "__Host-");
    for (std::string& name : options.tls->Names()) options.host_names.push_back(std::move(name));
  }
  if (const auto own = ParseHostAndPort(options.advertised)) {
    options.host_names.push_back(own->host);
    listeners.address = TextOf(*own);
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
  parts->address = parts->url.empty() ? StrCat(kUnixListener, parts->sockets.front()) : parts->url;
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
               .caller = [site](const RequestHead& head) { return site->ShareOf(head); },
               .before_sending = std::move(options.before_sending)});
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
  if (IsLocalPath(path) && path != "/")
    common::StrAppend(&link, "&next=", common::PercentEncode(path));
  return link;
}

}  // namespace muster::coordinator::http
