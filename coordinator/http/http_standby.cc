#include "coordinator/http/http_standby.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/base/clock.h"
#include "common/base/loopback.h"
#include "common/base/status.h"
#include "coordinator/http/admission/guard.h"
#include "coordinator/http/http_listeners.h"
#include "coordinator/http/server/server.h"
#include "coordinator/http/standby_site.h"

namespace muster::coordinator::http {
namespace {

// limit: HTTP of a coordinator that stands by: connections; the one that has idled longest is closed
constexpr size_t kStandbyConnectionsMax = 256;

}  // namespace

struct HttpStandby::Parts {
  Options options;
  HttpListeners listeners;
  common::SystemClock clock;
  std::unique_ptr<StandbySite> site;
  std::unique_ptr<Server> server;
};

HttpStandby::HttpStandby(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

HttpStandby::~HttpStandby() {
  if (parts_->server != nullptr) parts_->server->Stop();
  if (parts_->site != nullptr) parts_->site->Stop();
  for (const std::string& path : parts_->listeners.sockets) unlink(path.c_str());
}

absl::StatusOr<std::unique_ptr<HttpStandby>> HttpStandby::Open(Options options) {
  auto parts = std::make_unique<Parts>();
  ASSIGN_OR_RETURN(parts->listeners, OpenListeners(options.listen, Paths(options.data_dir),
                                                   options.tls, /*is_private=*/false));
  parts->options = std::move(options);
  return std::unique_ptr<HttpStandby>(new HttpStandby(std::move(parts)));
}

std::string HttpStandby::Address() const {
  const std::vector<std::string>& all = parts_->listeners.addresses;
  const auto beyond = std::find_if(all.begin(), all.end(), [](const std::string& each) {
    return !common::IsLoopbackHost(HostName(each));
  });
  return beyond != all.end() ? *beyond : parts_->listeners.address;
}

void HttpStandby::Serve(Among among) {
  std::vector<std::string> names = parts_->options.host_names;
  if (const auto own = ParseHostAndPort(among.advertised)) names.push_back(own->host);
  if (parts_->options.tls != nullptr) {
    for (std::string& name : parts_->options.tls->Names()) names.push_back(std::move(name));
  }
  parts_->site = std::make_unique<StandbySite>(
      StandbySite::Options{.name = std::move(among.name),
                           .host_names = std::move(names),
                           .is_encrypted = parts_->options.tls != nullptr,
                           .authority_pem = parts_->options.authority_pem,
                           .view = std::move(among.view),
                           .secrets = std::move(among.secrets),
                           .counts = [all = parts_.get()] { return all->server->Read(); },
                           .clock = parts_->clock});
  StandbySite* const site = parts_->site.get();
  parts_->server = std::make_unique<Server>(
      Server::Options{.listeners = std::move(parts_->listeners.listeners),
                      .connections = kStandbyConnectionsMax,
                      .limits = {}},
      Handlers{.check = [site](const RequestHead& head) { return site->Check(head); },
               .handle =
                   [site](Request request, Respond respond) {
                     site->Handle(std::move(request), std::move(respond));
                   }});
  parts_->server->Begin();
}

}  // namespace muster::coordinator::http
