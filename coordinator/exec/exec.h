// Commands in running jobs. A person's stream waits for the node's; then messages pass both ways, at
// the pace of the slower reader, until either side ends. Knows no gRPC. Any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/contexts/sink.h"
#include "coordinator/core/state/input.h"
#include "muster/v1/exec.pb.h"

namespace muster::coordinator {

struct Jobs;
struct Process;

// limit: commands in ranks: commands of `jobctl exec`; JC1343
inline constexpr size_t kExecSessionsMax = 64;
// limit: commands in ranks: the same per node; JC1343
inline constexpr size_t kExecSessionsPerNodeMax = 8;
// Sessions of one person, so that no one takes all places.
// limit: commands in ranks: the same of one person; JC1343
inline constexpr size_t kExecSessionsOfOneMax = 16;
// limit: commands in ranks: the same of one person per node; JC1343
inline constexpr size_t kExecSessionsOfOnePerNodeMax = 4;
// limit: commands in ranks: one message
inline constexpr size_t kExecMessageBytesMax = 64 * 1024;
// Bytes in one direction: while this much waits for its reader, nothing more is read from the other
// side.
// limit: commands in ranks: what waits each way; the faster side waits
inline constexpr size_t kExecOutboxBytesMax = 256 * 1024;
inline constexpr std::chrono::milliseconds kExecServedWithin{10'000};
// limit: commands in ranks: until the client names its command; it is ended
inline constexpr std::chrono::milliseconds kExecStartWithin{10'000};

// One side's stream. Never blocks; nothing is written or read once it is closed or gone.
template <typename Out>
class ExecEnd {
 public:
  virtual ~ExecEnd() = default;
  virtual void Write(Out message) = 0;
  virtual size_t QueuedBytes() const = 0;
  // Asks for one more message.
  virtual void ReadNext() = 0;
  virtual void Close(const absl::Status& status) = 0;
};
using ExecClient = ExecEnd<v1::ExecOutput>;
using ExecNode = ExecEnd<v1::ExecInput>;

// Where a command runs.
struct ExecPlace {
  std::string node;
  uint64_t job = 0;
  std::string job_name;
  uint32_t attempt = 0;
};

// Counts sessions: in total, by node, by person, and by both. A session counts until both of its
// streams are gone, because their unsent messages take memory.
class ExecSlots {
 public:
  // RESOURCE_EXHAUSTED if there are too many; otherwise returns the slot, which counts until it is
  // destroyed.
  static absl::StatusOr<std::shared_ptr<void>> Take(const std::shared_ptr<ExecSlots>& slots,
                                                    const std::string& node,
                                                    const std::string& principal);

 private:
  // With the lock.
  absl::Status CheckRoom(const std::string& node, const std::string& principal) const;

  std::mutex mutex_;  // guards what follows
  // By node and principal; never more than kExecSessionsMax.
  std::map<std::pair<std::string, std::string>, size_t> taken_;
};

// Created with the person's stream; both streams report their events to it.
class ExecSession {
 public:
  void Begin(std::shared_ptr<ExecClient> client);
  // True: this is the person's first message, which starts the command.
  bool TakeStart();
  // `why`: for the person, unless the first message came in time.
  void GiveUpStart(const absl::Status& why);
  // The order is on its way to a node; the session holds `slot`.
  void Await(std::string node, std::shared_ptr<void> slot);
  // The node's stream has arrived; from now on the person's stream is read.
  void Join(std::shared_ptr<ExecNode> node);
  // `why`: for the person, unless the node came in time.
  void GiveUpWaiting(const absl::Status& why);

  // A message has arrived; the next one is requested when there is room for it.
  void OnInput(v1::ExecInput message);
  void OnOutput(v1::ExecOutput message);
  // A message has been sent.
  void ClientWritten();
  void NodeWritten();
  void ClientGone();
  void NodeGone();

 private:
  // Closes what is still open.
  void End(const absl::Status& client, const absl::Status& node);
  std::pair<std::shared_ptr<ExecClient>, std::shared_ptr<ExecNode>> Ends();
  template <typename Reader, typename Writer>
  void Resume(std::shared_ptr<Reader> ExecSession::*reader,
              std::shared_ptr<Writer> ExecSession::*writer, bool ExecSession::*paused);
  template <typename Reader, typename Writer>
  void ReadOrPause(const std::shared_ptr<Reader>& reader, const std::shared_ptr<Writer>& writer,
                   bool ExecSession::*paused);

  std::mutex mutex_;  // guards what follows; not held while a stream is called
  std::shared_ptr<ExecClient> client_;
  std::shared_ptr<ExecNode> node_;
  std::string node_name_;
  std::shared_ptr<void> seat_;
  bool client_paused_ = false;
  bool node_paused_ = false;
  bool started_ = false;
  bool over_ = false;
};

class ExecBroker {
 public:
  using Later = std::function<void(std::chrono::milliseconds, std::function<void()>)>;
  explicit ExecBroker(Later later) : later_(std::move(later)) {}

  // The node's stream of orders. Replaces an older one, which is closed.
  void Await(const std::string& node, std::shared_ptr<Sink<v1::ExecOrder>> orders);
  // Ends the session if the person does not send a command in time.
  void ExpectStart(const std::shared_ptr<ExecSession>& session);
  // Sends the order and waits for the node. Errors: JC1343.
  absl::Status Open(const ExecPlace& place, const v1::ExecStart& start, const Caller& caller,
                    const std::shared_ptr<ExecSession>& session);
  // The session that a node has to serve; returned once. PERMISSION_DENIED: the session does not
  // wait for this caller.
  absl::StatusOr<std::shared_ptr<ExecSession>> Serve(const std::string& id, const Caller& caller);

 private:
  struct Awaited {
    std::string node;
    std::weak_ptr<ExecSession> session;
    std::shared_ptr<void> slot;  // kept even if the person has left, to bound the orders in flight
  };
  void Expire(const std::string& id);

  const Later later_;
  const std::shared_ptr<ExecSlots> slots_ = std::make_shared<ExecSlots>();
  std::mutex mutex_;  // guards what follows
  std::map<std::string, std::shared_ptr<Sink<v1::ExecOrder>>> nodes_;
  std::map<std::string, Awaited> awaited_;  // by session id
};

// PERMISSION_DENIED (JC1320) if a worker's certificate names another node.
absl::Status CheckServes(const Caller& caller, const std::string& node);

// Where the command runs: the newest attempt's node that has the rank. Errors: JC1203, JC1208,
// JC1211. Pure.
absl::StatusOr<ExecPlace> PlaceOfRank(const v1::JobRecord& job, uint32_t rank);

// Exec's first message.
void BeginExec(Jobs& jobs, Process& process, const Caller& caller, const v1::ExecStart& start,
               const std::shared_ptr<ExecSession>& session, Answer<v1::ExecStarted> answer);

}  // namespace muster::coordinator
