// What a coordinator answers over HTTP while another one leads: where that one is, with the same path and query; how
// it is itself; and nothing else. It knows no user, so it asks for no session: only /metrics needs a token.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "coordinator/base/work_pool.h"
#include "coordinator/http/admission/sessions.h"
#include "coordinator/http/server/message.h"
#include "coordinator/http/server/server.h"
#include "coordinator/http/server/target.h"
#include "coordinator/stores/leading.h"

namespace muster::coordinator::http {

// A view that is older than this tells neither who leads nor that this coordinator could.
inline constexpr int64_t kViewFreshMs = 30'000;

class StandbySite {
 public:
  struct Options {
    std::string name;                     // of this coordinator
    std::vector<std::string> host_names;  // ours besides addresses
    bool is_encrypted = false;            // TCP; the leader's ports are like ours
    std::string authority_pem;        // what /enroll/ca answers; empty: there is no cluster to join
    std::function<HeadsView()> view;  // any thread
    // What the leader signs sessions with, and asks of scrapers; may wait for a disk. NOT_FOUND: none has led so far.
    std::function<absl::StatusOr<Sessions::Secrets>()> secrets;
    std::function<Server::Counts()> counts;
    const common::Clock& clock;
  };
  explicit StandbySite(Options options);

  // The answer, unless that waits for a disk.
  std::optional<Response> Check(const RequestHead& head);
  void Handle(Request request, Respond respond);
  // Answers what is pending, and nothing that comes later.
  void Stop() { pool_.Stop(); }

 private:
  std::optional<Response> Judge(const RequestHead& head) const;
  std::optional<Response> Own(const RequestHead& head, std::string_view path) const;
  Response Elsewhere(const RequestHead& head, std::string_view path) const;
  // Why a request is not answered here, and, if it may be sent there, the leader's "https://h2:7701".
  struct Leader {
    absl::Status why;
    std::string url;
  };
  Leader FindLeader(const RequestHead& head) const;
  absl::Status StandsBy(std::string why, std::string fix) const;
  bool IsFresh(const HeadsView& view) const;
  Response Metrics(const RequestHead& head);
  // Not OK: the scraper has not proved who it is.
  absl::Status CheckScraper(const RequestHead& head);
  void Count(unsigned status);

  const Options options_;
  const int64_t started_ms_;
  std::unique_ptr<Sessions> sessions_;  // null: not read yet; used on the pool's thread
  std::mutex mutex_;                    // guards what follows
  std::map<unsigned, uint64_t> responses_;
  WorkPool pool_{1, kHttpNiceness};  // last: its thread uses the others
};

}  // namespace muster::coordinator::http
