// Everything that the HTTP server serves: what each address means, who may request it, and what is
// refused. The server's thread; work that waits is posted to the daemon's pools.
//
// A request must be addressed to us, must prove a session (except for health, /sign-in and /enroll/),
// and must not come from a page of another origin. docs/http.md lists these checks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/base/work_pool.h"
#include "coordinator/http/admission/sessions.h"
#include "coordinator/http/api/api.h"
#include "coordinator/http/pages/event_hub.h"
#include "coordinator/http/server/message.h"
#include "coordinator/http/server/server.h"
#include "coordinator/http/server/target.h"
#include "coordinator/http/sign_in/browser_sign_in.h"
#include "coordinator/http/sign_in/enroll.h"

namespace muster::coordinator {
struct Daemon;
}

namespace muster::coordinator::http {

class Site {
 public:
  struct Options {
    std::vector<std::string> host_names;  // ours besides addresses; lower or upper case
    std::function<Server::Counts()> counts;
    std::function<size_t()> journal_pending_bytes;
    std::shared_ptr<EventHub> hub;
    EnrollHandler* enroll = nullptr;  // null: there is no cluster to join
  };
  // All outlive this.
  Site(Daemon& daemon, Sessions& sessions, Options options)
      : daemon_(daemon), sessions_(sessions), options_(std::move(options)) {}

  std::optional<Response> Check(const RequestHead& head);
  void Handle(Request request, Respond respond);
  // The owner of the share of bounded resources that a request uses: its session's user, or its address
  // (IPv6: /64).
  std::string ShareOf(const RequestHead& head) const;
  // Answers what is pending, and nothing that comes later.
  void Stop() { pool_.Stop(); }

 private:
  std::optional<Response> Judge(const RequestHead& head);
  Sessions::Session SessionOf(const RequestHead& head) const;
  absl::StatusOr<Caller> CallerOf(const RequestHead& head) const;
  std::optional<Response> CheckSession(const RequestHead& head, const Target& target);
  std::optional<Response> CheckRoute(const RequestHead& head, const Target& target) const;
  Response SignIn(const Target& target, const Peer& peer);
  void AnswerEvents(const Request& request, const Target& target, Respond respond);
  void Count(unsigned status);

  Daemon& daemon_;
  Sessions& sessions_;
  const Options options_;
  WorkPool pool_{1, kHttpNiceness};
  ApiHandler desk_{.daemon = daemon_, .pool = pool_};
  BrowserSignIn sign_in_{daemon_, sessions_, options_.enroll};
  mutable std::mutex mutex_;  // guards what follows
  std::map<unsigned, uint64_t> responses_;
};

}  // namespace muster::coordinator::http
