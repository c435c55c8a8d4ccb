// The unix sockets that ranks use (docs/protocol.md): accepts, reads lines, answers. I/O thread;
// never blocks. Input is not trusted: an invalid line gets an error line; a peer of another account,
// or one that does not read, is disconnected. Connections and reading have a budget per attempt: a
// rank that dials endlessly, or floods, locks out at most its own job.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/files.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/base/json_lines.h"
#include "worker/confinement/rank_token.h"
#include "worker/core/state.h"

namespace muster::worker {

// Bound and listening, mode 0600; replaces an old socket of that name.
// `account`: who else may connect.
absl::StatusOr<common::UniqueFd> ListenUnix(const std::string& path,
                                            const common::LaunchAccount& account = {});

class TrainerSocket {
 public:
  struct Callbacks {
    std::function<uint64_t(const AttemptKey&, uint32_t rank)> last_seq;
    std::function<absl::Status(const AttemptKey&, uint32_t rank, v1::MetricBatch)> metrics;
    std::function<void(const AttemptKey&, uint32_t rank, int64_t step, uint64_t total)> progress;
    std::function<void(const AttemptKey&, uint32_t rank, uint64_t dropped)> dropped;
    std::function<void(const AttemptKey&)> checkpoint_hint;
    std::function<void(const AttemptKey&, uint32_t rank, uint64_t number, std::string record)>
        diagnosis;
  };
  // `connections_max`: over all attempts.
  explicit TrainerSocket(Callbacks callbacks, size_t connections_max = 4'096)
      : callbacks_(std::move(callbacks)), connections_max_(connections_max) {}

  struct Attempt {
    AttemptKey key;
    uint32_t first_rank = 0;
    uint32_t ranks = 0;
    RankPass pass = {};
  };
  void Add(const Attempt& attempt, common::UniqueFd listener);
  void Remove(const AttemptKey& key);
  // Sends a line to every connection of the attempt.
  void Broadcast(const AttemptKey& key, const std::string& line);
  // The ranks that have said hello and are still connected.
  std::set<uint32_t> Speakers(const AttemptKey& key) const;

  // Resets budgets; fills in what to poll for. Connections that had to wait in the last turn come
  // first.
  void BeginTurn(int64_t now_ms, std::vector<pollfd>* fds);
  void OnReady(const pollfd& ready, int64_t now_ms);
  // When to poll again even without events: no descriptor was free for a new connection.
  std::optional<int64_t> NextAcceptMs() const;
  // Reads what has arrived by now, within bounds (the ranks are dead: nothing more will arrive).
  void Drain(const AttemptKey& key);

 private:
  struct Connection {
    Attempt attempt;
    common::UniqueFd fd;
    std::string input;
    std::string output;
    bool greeted = false;
    bool skipping = false;  // inside a line that was too long
    uint32_t rank = 0;
    std::string sent_error;  // repeated errors are sent once
  };
  struct Listener {
    Attempt attempt;
    common::UniqueFd fd;
    size_t connections = 0;
    size_t bytes_left = 0;  // left to read in this turn
    int64_t paused_until_ms = 0;
  };
  void Accept(Listener& listener, int64_t now_ms);
  // Makes room for one more connection of this attempt: closes a connection of the attempt with the
  // most, if that attempt has more.
  bool MakeRoom(const Listener& newcomer);
  Listener* Of(const AttemptKey& key);
  void Close(std::map<int, std::unique_ptr<Connection>>::iterator connection);
  // False: close the connection.
  bool Read(Connection& connection, size_t* bytes_left);
  bool Flush(Connection& connection);
  void TakeLines(Connection& connection);
  void OnLine(Connection& connection, std::string_view line);
  absl::Status OnHello(Connection& connection, const TrainerLine& line);
  absl::Status OnMetrics(Connection& connection, TrainerLine line);
  void Refuse(Connection& connection, std::string_view reason);

  const Callbacks callbacks_;
  const size_t connections_max_;
  int waited_fd_ = 0;                  // the first one whose attempt's budget was used up
  std::map<int, Listener> listeners_;  // by fd
  std::map<int, std::unique_ptr<Connection>> connections_;  // by fd
};

}  // namespace muster::worker
