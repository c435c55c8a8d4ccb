// Events for all open pages: one subscription to the coordinator's events, written as server-sent
// events once for any number of clients. Each client has only a position in a ring of the newest ones;
// a client that falls out of it is told to read everything again.
//
// An event is {"events":[{"seq","atMs","job","attempt","node"}],"texts":[…]}: what changed and the
// sentence about it, not the change itself. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "coordinator/http/server/message.h"
#include "muster/v1/job_service.pb.h"

namespace muster::coordinator {
struct Daemon;
}

namespace muster::coordinator::http {

// Pieces of an event stream by number.
class EventRing {
 public:
  // limit: HTTP: events kept for clients; resync
  static constexpr size_t kBytesMax = 1 << 20;
  static constexpr uint64_t kFromNow = UINT64_MAX;
  static constexpr size_t kPieceBytes = 64 * 1024;  // handed to one client at a time

  // `text` is a whole server-sent event about the events `first` to `last`.
  void Add(uint64_t first, uint64_t last, std::string text);
  // What comes after `*number`, which it advances; empty if there is nothing. A resync event if what
  // comes next is no longer here, and for kFromNow.
  std::string Take(uint64_t* number) const;
  // Forgets everything in it: what comes next may leave a gap.
  void Forget();

 private:
  struct Piece {
    uint64_t number = 0;
    std::string text;
  };
  mutable std::mutex mutex_;  // guards what follows
  std::deque<Piece> pieces_;
  size_t bytes_ = 0;
  uint64_t forgotten_ = 0;  // the newest number that is no longer here
};

class EventHub : public std::enable_shared_from_this<EventHub> {
 public:
  // `news`: there is more to take. Any thread; must only enqueue.
  EventHub(Daemon& daemon, std::function<void()> news) : daemon_(daemon), news_(std::move(news)) {}

  // The source for a client that has seen `number`. Subscribes at the first call.
  std::shared_ptr<TextSource> Reader(uint64_t number);
  // The same, plus news of stored metrics and logs of this job.
  std::shared_ptr<TextSource> ReaderOfJob(uint64_t number, uint64_t job);
  // Ends the subscription.
  void End();

 private:
  static constexpr size_t kWaitingMax = 1'024;  // batches; beyond it clients have to read again
  class Subscription;
  void Subscribe();
  void Receive(v1::EventBatch batch);
  // On a pool's thread: one at a time, in order.
  void WriteWaiting();

  Daemon& daemon_;
  const std::function<void()> news_;
  EventRing ring_;

  std::mutex mutex_;  // guards what follows
  std::shared_ptr<Subscription> subscription_;
  std::deque<v1::EventBatch> waiting_;
  bool began_ = false;
  bool ended_ = false;
  bool is_writing_ = false;
};

// "id: 7\nevent: change\ndata: {…}\n\n". Empty if none of them is journaled.
std::string ServerSentEvent(const v1::EventBatch& batch);

}  // namespace muster::coordinator::http
