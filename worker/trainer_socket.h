// The unix sockets that ranks speak to (docs/protocol.md): accepts, reads lines, answers. I/O
// thread; never blocks. What arrives is not trusted: a bad line is answered by an error line, a
// peer that does not read is cut off.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/core/state.h"
#include "worker/json_lines.h"

namespace muster::worker {

// Bound, listening, mode 0600; an old socket of that name is replaced.
absl::StatusOr<common::UniqueFd> ListenUnix(const std::string& path);

class TrainerSocket {
 public:
  struct Doors {
    std::function<uint64_t(const AttemptKey&, uint32_t rank)> last_seq;
    std::function<absl::Status(const AttemptKey&, uint32_t rank, v1::MetricBatch)> metrics;
    std::function<void(const AttemptKey&, uint32_t rank, int64_t step, uint64_t total)> progress;
    std::function<void(const AttemptKey&, uint32_t rank, uint64_t dropped)> dropped;
    std::function<void(const AttemptKey&)> checkpoint_hint;
    std::function<void(const AttemptKey&, uint32_t rank, uint64_t number, std::string record)>
        diagnosis;
  };
  explicit TrainerSocket(Doors doors) : doors_(std::move(doors)) {}

  struct Attempt {
    AttemptKey key;
    uint32_t first_rank = 0;
    uint32_t ranks = 0;
  };
  void Add(const Attempt& attempt, common::UniqueFd listener);
  void Remove(const AttemptKey& key);
  // A line to every connection of the attempt.
  void Broadcast(const AttemptKey& key, const std::string& line);

  void AppendPollFds(std::vector<pollfd>* fds) const;
  void OnReady(const pollfd& ready);
  // Reads what has arrived by now (the ranks are dead: nothing more comes).
  void Drain();

 private:
  struct Connection {
    Attempt attempt;
    common::UniqueFd fd;
    std::string input;
    std::string output;
    bool greeted = false;
    bool skipping = false;  // inside a line that was too long
    uint32_t rank = 0;
    std::string sent_error;  // errors repeat once
  };
  struct Listener {
    Attempt attempt;
    common::UniqueFd fd;
  };
  void Accept(Listener& listener);
  // False: close the connection.
  bool Read(Connection& connection);
  bool Flush(Connection& connection);
  void TakeLines(Connection& connection);
  void OnLine(Connection& connection, std::string_view line);
  absl::Status OnHello(Connection& connection, const TrainerLine& line);
  absl::Status OnMetrics(Connection& connection, TrainerLine line);
  void Refuse(Connection& connection, std::string_view reason);

  const Doors doors_;
  std::map<int, Listener> listeners_;                       // by fd
  std::map<int, std::unique_ptr<Connection>> connections_;  // by fd
};

}  // namespace muster::worker
